-- The functions that all verbs share. They follow the fast paths, because defining functions costs time on every call.
--
-- Variables of the verb: call, raw, q, e, id, channel, now_us (as text; nil if the clock was not read yet).
--
-- raw  mutex: the string id, mark, token[:label], see ADR 1. Otherwise a sorted set of holders, id -> end of the lease in ms.
--      The mark is ':' if nobody has queued up behind this holder. A holder that was created without a script has no token
--      until its renewal writes it. The first waiter marks it with '+', or with '~' if it had no token: then it draws one, which
--      is larger than the token that the holder has been told, if any, and smaller than that of the waiter (ADR 28).
-- q    the waiters: a sorted set, id -> small number.
-- e    hash, id -> 'token ttl expiry permits process label' of waiters, and of the holders in a set;
--      (process: where to send hints, as the last digits of a channel: each runtime of a process has one);
--      k = 'kind:limit' of the queue, s = sum of the permits held, which has no meaning if raw does not exist.
if not now_us then
    local time = call('TIME')
    now_us = time[1] .. string.format('%06d', time[2])
end
local now = math.floor(tonumber(now_us) / 1000)

-- none, ours (a mutex is held), foreign (a string that is not ours), zset, or a type that no lock has.
local shape
-- The kind and the limit of the queue, and the sum of the permits held. kind is nil if there is no queue.
local kind, limit, held
-- The field k of e; false if there is none.
local described
-- The holder of a mutex.
local holder, holder_mark, holder_token, holder_label
-- Whether the queue is empty, once it is settled.
local nobody_waits
-- Whether the entry that is served was promoted. It needs no hint.
local promoted

local function whole(number)
    return string.format('%.0f', number)
end

-- token, ttl, expiry, permits, process, label; nothing if the entry is not there.
local function split(entry)
    if entry then
        return entry:match('^(%d+) (%d+) (%d+) (%d+) (%S+) (.*)$')
    end
end

local function read_lock()
    shape, holder = call('TYPE', raw).ok, nil
    if shape == 'string' then
        holder, holder_mark, holder_token, holder_label = call('GET', raw):match('^([0-9a-f]+)([:+~])(%d*)(.*)$')
        local ours = holder and #holder == 32 and (holder_label == '' or holder_label:sub(1, 1) == ':')
        shape, holder = ours and 'ours' or 'foreign', ours and holder or nil
    end
    local meta = call('HMGET', e, 'k', 's')
    kind, limit, described = nil, 0, meta[1]
    if described and (shape == 'zset' or call('EXISTS', q) == 1) then
        kind, limit = described:match('^(%a):(%d+)$')
        limit = tonumber(limit)
    elseif shape == 'ours' then
        kind, limit = 'm', 1
    end
    -- A lock that does not match its queue admits no entry.
    held = limit
    if shape == 'none' then
        held = 0
    elseif shape == 'zset' and kind ~= 'm' then
        held = tonumber(meta[2]) or limit
    end
end

-- The entry that is served: role, token, expiry, permits, process, label; nothing if it is not there.
local function find()
    if holder == id then
        return 'holder', holder_token, math.huge
    end
    local token, _, expiry, permits, process, label = split(call('HGET', e, id))
    if not token then
        return
    end
    local score = shape == 'zset' and call('ZSCORE', raw, id)
    if score then
        return 'member', token, tonumber(score), permits, process, label
    end
    if call('ZSCORE', q, id) then
        return 'waiter', token, tonumber(expiry), permits, process, label
    end
end

-- Writes the mark and the token of the holder of a mutex. Its lease stays as it is.
local function write_holder()
    call('SET', raw, holder .. holder_mark .. holder_token .. holder_label, 'KEEPTTL')
end

-- Whether the holder has not been granted the lock if somebody waits: it was created without a script when there was a queue, and has not
-- learnt that yet. Who queues up behind a holder marks it.
local function may_have_passed()
    return shape == 'ours' and holder_mark == ':' and holder_token == ''
end

-- PR19: the ttl of what entries share only grows. PR20: always a write, and one that is never denied.
local function grow(key, ms)
    call('PEXPIRE', key, math.max(call('PTTL', key), ms))
end

local function write_entry(token, ttl, expiry, permits, process, label)
    local entry = {token, ttl, whole(expiry), permits, process, label}
    call('HSET', e, id, table.concat(entry, ' '))
end

-- PR04: a lease never shrinks.
local function refresh(ttl, role, token, expiry, permits, process, label)
    local fresh = now + ttl + 1
    if role == 'holder' then
        if call('PTTL', raw) < tonumber(ttl) then
            call('PEXPIRE', raw, ttl)
        end
    elseif role == 'member' then
        grow(raw, ttl + 1000)
        grow(e, ttl + 2000)
        call('ZADD', raw, 'XX', 'GT', fresh, id)
    else
        grow(q, ttl + 1000)
        grow(e, ttl + 2000)
        write_entry(token, ttl, math.max(expiry, fresh), permits, process, label)
    end
end

-- Removes the entry that is served. After that, the queue has to be settled.
local function remove(role, permits)
    if role == 'holder' then
        call('DEL', raw)
        shape, holder, held = 'none', nil, 0
    elseif role == 'member' then
        call('ZREM', raw, id)
        call('HDEL', e, id)
        held = held - permits
        if call('EXISTS', raw) == 0 then
            shape, held = 'none', 0
        else
            call('HSET', e, 's', held)
        end
    elseif role == 'waiter' then
        call('ZREM', q, id)
        call('HDEL', e, id)
    end
end

local function drop_dead_members()
    local dead
    repeat
        dead = call('ZRANGEBYSCORE', raw, '-inf', now, 'LIMIT', 0, 256)
        if #dead > 0 then
            local entries = call('HMGET', e, unpack(dead))
            call('ZREM', raw, unpack(dead))
            call('HDEL', e, unpack(dead))
            for i = 1, #dead do
                local _, _, _, permits = split(entries[i])
                held = held - (tonumber(permits) or 0)
            end
            call('HSET', e, 's', held)
        end
    until #dead < 256
    if call('EXISTS', raw) == 0 then
        shape, held = 'none', 0
    end
end

-- Makes entries that were removed from the queue holders, for the rest of their own leases.
local function admit(heirs)
    if kind == 'm' then
        local heir = heirs[1]
        shape, holder, holder_token, holder_label = 'ours', heir.id, heir.token, heir.label
        holder_mark = call('EXISTS', q) == 1 and '+' or ':'
        call('HDEL', e, holder)
        call('SET', raw, holder .. holder_mark .. holder_token .. holder_label, 'PXAT', heir.expiry)
        return
    end
    local members, last = {}, 0
    for i, heir in ipairs(heirs) do
        members[2 * i - 1], members[2 * i] = heir.expiry, heir.id
        last = math.max(last, heir.expiry)
    end
    call('ZADD', raw, unpack(members))
    grow(raw, last - now + 1000)
    call('HSET', e, 's', held)
    shape = 'zset'
end

-- Goes through the first n of the queue: drops the dead, and admits entries that fit. Returns whether to go on.
local function advance(n, hints)
    local ids = call('ZRANGE', q, 0, n - 1)
    if #ids == 0 then
        nobody_waits = true
        return false
    end
    local entries = call('HMGET', e, unpack(ids))
    local off, dead, heirs, blocked = {}, {}, {}, false
    for i, other in ipairs(ids) do
        local token, _, expiry, permits, process, label = split(entries[i])
        local lives = token and tonumber(expiry) > now
        if lives and may_have_passed() then
            call('DEL', raw)
            shape, holder, held = 'none', nil, 0
        end
        if not lives then
            dead[#dead + 1] = other
        elseif held + permits <= limit then
            held = held + permits
            heirs[#heirs + 1] = {id = other, token = token, expiry = expiry, label = label}
            if other == id then
                promoted = true
            else
                hints[process] = hints[process] or {}
                table.insert(hints[process], 'A ' .. other .. ' ' .. token)
            end
        else
            blocked = true
            break
        end
        off[#off + 1] = other
    end
    if #off > 0 then
        -- PR20: the first write is one that is never denied.
        call('ZREM', q, unpack(off))
    end
    if #dead > 0 then
        call('HDEL', e, unpack(dead))
    end
    if #heirs > 0 then
        admit(heirs)
    end
    return not blocked
end

-- PR11, the end of every verb: drops the dead, admits all entries that fit now, and sends hints once that is written. Takes the lock from a
-- holder that has passed the queue.
local function settle()
    if shape == 'zset' and kind and kind ~= 'm' then
        drop_dead_members()
    end
    local n, hints = 1, {}
    nobody_waits = false
    while advance(n, hints) do
        n = math.min(2 * n, 64)
    end
    if nobody_waits then
        -- PR20: no DEL if there is nothing to delete, because a write that is never denied lets the next one pass.
        if described and (kind == 'm' or shape == 'none') then
            call('DEL', e)
        end
        if shape ~= 'ours' and shape ~= 'zset' then
            kind = nil
        end
    end
    for process, lines in pairs(hints) do
        local message = #lines > 64 and 'C' or table.concat(lines, '\n')
        redis.pcall('PUBLISH', channel:sub(1, -33) .. process, message)
    end
end

