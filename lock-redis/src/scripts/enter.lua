local process = channel:sub(-32)
local mode, my_kind, my_permits, my_limit, place, unwritten = claim:match('^(%a) (%a) (%d+) (%d+) ?(%d*)(u?)$')
local tries, creates = mode == 't', place == ''
local permits = tonumber(my_permits)

-- A token larger than any before in this slot: the next id of the counter, a stream without entries. The server makes its ids of the clock
-- in ms, or of the last id if the clock is behind that, and a sequence. The token is ms * 1000 + sequence, as text, which is exact past 2^53.
-- This is the first write of an enter that creates: out of memory, it is refused before anything has changed.
local function mint()
    local next_id = drawn or redis.pcall('XADD', counter, 'MAXLEN', '0', '*', 't', '')
    drawn = nil
    local trouble = type(next_id) == 'table' and next_id.err
    if trouble and trouble:find('WRONGTYPE', 1, true) then
        return nil, {'C', counter}
    elseif trouble and trouble:find('exhausted', 1, true) then
        return nil, {'X', counter}
    elseif trouble then
        -- Fails again, with the error as the server words it.
        next_id = call('XADD', counter, 'MAXLEN', '0', '*', 't', '')
    end
    local ms, sequence = next_id:match('^(%d+)%-(%d+)$')
    -- Up to here, Lua has each ms exactly.
    local last = 2^53 - 1
    if tonumber(sequence) > 999 and tonumber(ms) < last then
        -- The clock stands still, or is behind.
        ms, sequence = whole(ms + 1), 0
        call('XADD', counter, 'MAXLEN', '0', ms .. '-0', 't', '')
    end
    if tonumber(ms) >= last then
        return nil, {'X', counter}
    end
    return ms .. string.format('%03d', sequence)
end

-- The earliest end, in ms from now, of a lease whose end can admit this entry. PR15: looks at the nearest entries ahead until
-- their permits and its own exceed the limit. Drops at most 16 dead entries on the way.
local function look_again(token, rank)
    local sum, soonest, dead = permits, math.huge, {}
    local last, window, seen = rank - 1, 2, 0
    while last >= 0 and sum <= limit and seen < 256 do
        local first = math.max(0, last - window + 1)
        local ids = call('ZRANGE', q, first, last)
        local entries = call('HMGET', e, unpack(ids))
        for i = #ids, 1, -1 do
            local other, _, expiry, theirs = split(entries[i])
            if other and tonumber(expiry) > now then
                sum, soonest = sum + theirs, math.min(soonest, tonumber(expiry))
                if sum > limit then
                    break
                end
            elseif #dead < 16 then
                dead[#dead + 1] = ids[i]
            end
        end
        last, window, seen = first - 1, math.min(4 * window, 128), seen + #ids
    end
    if #dead > 0 then
        call('ZREM', q, unpack(dead))
        call('HDEL', e, unpack(dead))
    end
    if sum <= limit and shape == 'zset' then
        -- A writer needs all of them gone, any other entry only one.
        local end_of = permits == limit and -1 or 0
        local member = call('ZRANGE', raw, end_of, end_of, 'WITHSCORES')
        soonest = math.min(soonest, tonumber(member[2]) or now)
    elseif sum <= limit then
        local left = call('PTTL', raw)
        if left >= 0 then
            soonest = math.min(soonest, now + left)
        end
        if shape == 'foreign' then
            -- PR24: a foreign lock may end without a hint, so its next waiter asks, less often the longer it has waited.
            local waited = (now_us - token) / 1000
            soonest = math.min(soonest, now + math.floor(math.max(50, math.min(500, waited / 4))))
        end
    end
    if soonest == math.huge then
        soonest = now + ttl
    end
    -- This waiter may get no hint: it is not subscribed, or there is the mark of a process that may not publish. So it polls,
    -- less often the longer it has waited and the more entries are ahead.
    local alone = mode == 'p' or call('EXISTS', channel:sub(1, -35) .. 'm') == 1
    rank = rank - #dead
    if alone then
        local waited = (now_us - token) / 1000
        local pause = math.max(50, math.min(500, waited / 4)) * (rank + 1)
        soonest = math.min(soonest, now + math.floor(pause))
    end
    return math.max(1, soonest - now + 1), rank, alone
end

local function who_holds()
    if shape == 'ours' then
        return 'o', holder_label
    elseif shape == 'foreign' then
        return call('PTTL', raw) >= 0 and 'f' or 'p', ''
    elseif shape == 'zset' then
        local first = call('ZRANGE', raw, 0, 0)[1]
        local _, _, _, _, _, theirs = split(first and call('HGET', e, first))
        return 'o', theirs or ''
    end
    return 'n', ''
end

local function waiting(token)
    local look, ahead, alone = look_again(token, call('ZRANK', q, id))
    if shape == 'zset' then
        ahead = ahead + call('ZCARD', raw)
    elseif shape ~= 'none' then
        ahead = ahead + 1
    end
    local who, theirs = who_holds()
    return {'W', token, ahead, look, who, theirs, alone and '1' or nil}
end

-- The answer that explains why an entry with this claim cannot be here, or nothing.
local function objection()
    local is_mutex = my_kind == 'm'
    if shape == 'ours' and not is_mutex then
        return {'M', 'm', '1'}
    elseif kind and (kind ~= my_kind or limit ~= tonumber(my_limit)) then
        return {'M', kind, whole(limit)}
    elseif shape == 'foreign' and not is_mutex then
        return {'F', 'string'}
    elseif shape == 'zset' and (is_mutex or not kind) then
        return {'F', 'zset'}
    elseif shape ~= 'none' and shape ~= 'ours' and shape ~= 'foreign' and shape ~= 'zset' then
        return {'F', shape}
    end
end

local function create()
    local trouble = objection()
    if trouble then
        return trouble
    end
    kind, limit = my_kind, tonumber(my_limit)
    if shape == 'foreign' then
        held = limit
    end
    -- PR12: no entry passes a queue.
    local fits = nobody_waits and held + permits <= limit
    if not fits and tries then
        return {'B'}
    end
    -- See the library for why this comes before the waiter's own.
    local mark = '+'
    if not fits and shape == 'ours' and holder_token == '' then
        mark = '~'
        holder_token, trouble = mint()
    end
    local token
    if not trouble then
        token, trouble = mint()
    end
    if trouble then
        return trouble
    end
    local expiry = now + ttl + 1
    if kind == 'm' and fits then
        call('SET', raw, id .. ':' .. token .. label, 'PX', ttl)
        return token
    end
    write_entry(token, ttl, expiry, permits, process, label)
    if fits then
        call('HSET', e, 'k', kind .. ':' .. my_limit, 's', held + permits)
        call('ZADD', raw, expiry, id)
        grow(raw, ttl + 1000)
        grow(e, ttl + 2000)
        return token
    end
    if shape == 'ours' and holder_mark == ':' then
        holder_mark = mark
        write_holder()
    end
    call('HSET', e, 'k', kind .. ':' .. my_limit)
    local last = call('ZRANGE', q, -1, -1, 'WITHSCORES')
    call('ZADD', q, (tonumber(last[2]) or 0) + 1, id)
    grow(q, ttl + 1000)
    grow(e, ttl + 2000)
    return waiting(token)
end

read_lock()
if may_have_passed() then
    settle()
    read_lock()
end
local role, token, expiry, own_permits, _, theirs = find()
-- PR06: the entry's own expiry is judged before anything else, by the clock that admits.
if role and expiry <= now then
    remove(role, own_permits)
    role = nil
end
-- The token of a holder that was created without a script may not be written.
local learns = role == 'holder' and (token == '' or holder_mark == '~') and (creates or unwritten == 'u')
if learns and not creates then
    token = place
elseif learns and token == '' then
    -- The answer to its create was lost, or was no grant.
    local trouble
    token, trouble = mint()
    if trouble then
        remove(role)
        settle()
        return trouble
    end
end
if learns then
    holder_token, holder_mark = token, holder_mark == '~' and '+' or holder_mark
    write_holder()
end
if not creates and token ~= place then
    settle()
    return {'G'}
end
if not role then
    settle()
    if not creates or call('EXISTS', tombstone) == 1 then
        return {'G'}
    end
    return create()
end

-- Hints go to the process that entered last.
refresh(ttl, role, token, expiry, own_permits, process, theirs)
settle()
if role ~= 'waiter' or promoted then
    return token
end
local trouble = objection()
if trouble then
    return trouble
end
if tries then
    remove(role)
    settle()
    return {'B'}
end
return waiting(token)
