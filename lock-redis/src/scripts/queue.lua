read_lock()
if shape == 'zset' and not kind then
    return {'F', 'zset'}
elseif shape ~= 'none' and shape ~= 'ours' and shape ~= 'foreign' and shape ~= 'zset' then
    return {'F', shape}
end
local rows = {kind or 'm', whole(math.max(limit, 1))}

local function add(role, ids, scores)
    local entries = #ids > 0 and call('HMGET', e, unpack(ids)) or {}
    for i, other in ipairs(ids) do
        local token, ttl, expiry, permits, _, label = split(entries[i])
        local left = token and (tonumber(scores and scores[i] or expiry) - now)
        if left and left > 0 then
            -- An expiry is rounded up by a millisecond. The ttl of a holder is the one that it waited with, and its lease may be longer.
            left = left > tonumber(ttl) and left - 1 or left
            rows[#rows + 1] = {role, other, token, permits, left, label}
        end
    end
end

if shape == 'ours' then
    -- A token that a waiter drew is not what the holder was told.
    rows[#rows + 1] = {'h', holder, holder_mark == '~' and '' or holder_token, '1', call('PTTL', raw), holder_label}
elseif shape == 'foreign' then
    rows[#rows + 1] = {'f', '', '', '1', call('PTTL', raw), ''}
elseif shape == 'zset' then
    local first = 0
    repeat
        local page = call('ZRANGE', raw, first, first + 255, 'WITHSCORES')
        local ids, scores = {}, {}
        for i = 1, #page, 2 do
            ids[#ids + 1], scores[#scores + 1] = page[i], page[i + 1]
        end
        add('h', ids, scores)
        first = first + 256
    until #page == 0
end
local first = 0
repeat
    local ids = call('ZRANGE', q, first, first + 255)
    add('w', ids)
    first = first + 256
until #ids == 0
return rows
