-- enter: stand in the queue, or look again from the place already taken.
--
-- KEYS: 1 the lock · 2 its queue · 3 its entries · 4 its token counter · 5 the tombstone of this entry
-- ARGV: 1 ':' and the id, and if there is one ':' and the label · 2 ttl in ms
--       3 'q' to queue or 't' to try; the claim: kind (m, r, s), permits, limit; the token of the place, or none to create
--       4 channel of the caller
-- Answer: token, admitted · {'W', token, ahead, look again in ms, who holds, label} · {'B'} busy · {'G'} gone
--         {'M', kind, limit} mismatch · {'F', type} foreign data · {'X'} no tokens left
local call, raw, q, e = redis.call, KEYS[1], KEYS[2], KEYS[3]
-- The time in microseconds, which is a token if it is larger than the last one. As text, which is exact past 2^53.
local time = call('TIME')
local now_us = time[1] .. (#time[2] == 6 and time[2] or string.format('%06d', time[2]))

-- A mutex that nobody holds or waits for: nothing is touched or defined that need not be.
if (ARGV[3] == 'q m 1 1' or ARGV[3] == 't m 1 1') and call('EXISTS', raw, q, KEYS[5]) == 0 then
    local last = call('SET', KEYS[4], now_us, 'KEEPTTL', 'GET')
    local last_us, us = tonumber(last), tonumber(now_us)
    if not last or last_us and last_us < us then
        -- The counter lives for 30 days from the last day on which it was used.
        if not last or us - last_us >= us % 86400000000 then
            call('PEXPIRE', KEYS[4], '2592000000')
        end
        call('SET', raw, now_us .. ARGV[1], 'PX', ARGV[2])
        return now_us
    end
    -- The clock is behind the tokens: the long way.
    call('SET', KEYS[4], last, 'KEEPTTL')
end

local id, channel = ARGV[1]:sub(2, 33), ARGV[4]

