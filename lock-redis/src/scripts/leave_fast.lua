-- leave: leave the queue, holding or waiting, whatever the token. Also an operator's evict.
--
-- KEYS: 1 the lock · 2 its queue · 3 its entries · 4 the tombstone of this entry, if a create was not answered
-- ARGV: 1 id · 2 'm' for a mutex, else '' · 3 channel of this process · 4 life of the tombstone in ms, or '' or nothing
--       5 channel of alarms to tell, or nothing
-- Answer: 1 left · 0 was not there
local call, raw, q, e = redis.call, KEYS[1], KEYS[2], KEYS[3]
local id, channel = ARGV[1], ARGV[3]
local now_us, left

-- PR08: the door is closed to a create that is still on its way. PR20: DEL first, which is never denied.
if KEYS[4] then
    call('DEL', KEYS[4])
    call('SET', KEYS[4], '', 'PX', ARGV[4])
end
if ARGV[2] == 'm' then
    local value = redis.pcall('GET', raw)
    if type(value) == 'string' and value:match('^%d+:([0-9a-f]+)') == id then
        call('DEL', raw)
        if call('EXISTS', q) == 0 then
            return 1
        end
        left = 1
    end
end

