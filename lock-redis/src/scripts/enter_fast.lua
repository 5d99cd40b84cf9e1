-- enter: stand in the queue, or look again from the place already taken.
--
-- Keys: raw the lock · q its queue · e its entries · counter its tokens · tombstone that of this entry
-- Arguments: owner ':' and the id, and if there is one ':' and the label · ttl in ms
--            claim: 'q' to queue, 'p' to queue without hints, or 't' to try; kind (m, r, s), permits, limit; the token of the place, or none to create
--            channel of the caller
-- Answer: token, admitted · {'W', token, ahead, look again in ms, who holds, label, and '1' if it may get no hint}
--         {'B'} busy · {'G'} gone
--         {'M', kind, limit} mismatch · {'F', type} foreign data · {'X'} no tokens left
--
-- The time in microseconds. It is the token if it is larger than the last one. As text, which is exact past 2^53.
if not now_us then
    local time = call('TIME')
    now_us = time[1] .. (#time[2] == 6 and time[2] or string.format('%06d', time[2]))
end

-- The fast path for a free mutex without waiters reads and defines nothing else.
if (claim == 'q m 1 1' or claim == 't m 1 1' or claim == 'p m 1 1') and call('EXISTS', raw, q, tombstone) == 0 then
    local last = call('SET', counter, now_us, 'KEEPTTL', 'GET')
    local last_us, us = tonumber(last), tonumber(now_us)
    if not last or last_us and last_us < us then
        -- The counter lives for 30 days from the last day on which it was used.
        if not last or us - last_us >= us % 86400000000 then
            call('PEXPIRE', counter, '2592000000')
        end
        call('SET', raw, now_us .. owner, 'PX', ttl)
        return now_us
    end
    -- The clock is behind the tokens: the general case.
    call('SET', counter, last, 'KEEPTTL')
end

local id = owner:sub(2, 33)

