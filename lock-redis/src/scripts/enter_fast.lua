-- enter: stand in the queue, or look again from the place already taken.
--
-- Keys: raw the lock · q its queue · e its entries · counter the tokens of its slot · tombstone that of this entry
-- Arguments: owner the id, and if there is one ':' and the label · ttl in ms
--            claim: 'q' to queue, 'p' to queue without hints, or 't' to try; kind (m, r, s), permits, limit; the token of the place, or none
--            to create; after it 'u' if the value may lack that token
--            channel of the caller
-- Answer: token, admitted · {'W', token, ahead, look again in ms, who holds, label, and '1' if it may get no hint}
--         {'B'} busy · {'G'} gone
--         {'M', kind, limit} mismatch · {'F', type} foreign data
--         {'C', counter} the counter is none · {'X', counter} no tokens left
local id, label = owner:sub(1, 32), owner:sub(33)
-- The id that the counter gave, or its error. See `mint`.
local drawn

-- The fast path for a free mutex without waiters reads and defines nothing else.
if (claim == 'q m 1 1' or claim == 't m 1 1' or claim == 'p m 1 1') and call('EXISTS', raw, q, tombstone) == 0 then
    drawn = redis.pcall('XADD', counter, 'MAXLEN', '0', '*', 't', '')
    local ms, sequence = (type(drawn) == 'string' and drawn or ''):match('^(%d+)%-(%d%d?%d?)$')
    if ms and #ms < 16 then
        local token = ms .. string.format('%03d', sequence)
        call('SET', raw, id .. ':' .. token .. label, 'PX', ttl)
        return token
    end
    -- An error, or a clock that is far behind the counter: the general case.
end

