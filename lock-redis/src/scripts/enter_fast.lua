-- enter: stand in the queue, or look again from the place already taken.
--
-- KEYS: 1 the lock · 2 its queue · 3 its entries · 4 its token counter · 5 the tombstone of this entry
-- ARGV: 1 id · 2 ttl in ms · 3 '' to create, else the token of the place
--       4 'q' to queue or 't' to try, then the claim: kind (m, r, s), permits and limit
--       5 channel of this process · 6 '' or ':' and the label
-- Answer: token, admitted · {'W', token, ahead, look again in ms, who holds, label} · {'B'} busy · {'G'} gone
--         {'M', kind, limit} mismatch · {'F', type} foreign data · {'X'} no tokens left
local call, raw, q, e = redis.call, KEYS[1], KEYS[2], KEYS[3]
local id, channel = ARGV[1], ARGV[5]

-- The time in microseconds, which is a token if it is larger than the last one. As text, which is exact past 2^53.
local time = call('TIME')
local now_us = time[1] .. (#time[2] == 6 and time[2] or string.format('%06d', time[2]))

-- A mutex that nobody holds or waits for: nothing is touched or defined that need not be.
if ARGV[3] == '' and (ARGV[4] == 'q m 1 1' or ARGV[4] == 't m 1 1') and call('EXISTS', raw, q, KEYS[5]) == 0 then
    local last = call('SET', KEYS[4], now_us, 'PX', '2592000000', 'GET')
    if not last or (tonumber(last) or math.huge) < tonumber(now_us) then
        call('SET', raw, now_us .. ':' .. id .. ARGV[6], 'PX', ARGV[2])
        return now_us
    end
    -- The clock is behind the tokens: the long way.
    call('SET', KEYS[4], last, 'KEEPTTL')
end

