-- renew: extend leases. Never creates an entry, and never extends the lease of another entry or of another life.
--
-- KEYS: for each lease the lock, its queue, its entries
-- ARGV: 1 channel of the caller, then for each lease: 'm' for a mutex, 'u' for one whose token is perhaps not written, else '' · id · token
--       · ttl in ms
-- Answer for each lease: 1 renewed · 0 lost · text: unknown, and the reason
local call, channel = redis.call, ARGV[1]
local raw, q, e, id, now_us
local answers, open = {}, {}

for i = 1, #KEYS / 3 do
    local lock, at = KEYS[3 * i - 2], 4 * i - 2
    local value = ARGV[at] ~= '' and redis.pcall('GET', lock)
    local holder, mark, token, label = (type(value) == 'string' and value or ''):match('^([0-9a-f]+)([:+~])(%d*)(.*)$')
    local unwritten = ARGV[at] == 'u' and (token == '' or mark == '~')
    if holder == ARGV[at + 1] and (token == ARGV[at + 2] or unwritten) then
        -- PR04: a lease only grows. H59: a lease whose expiry was removed gets one again.
        if call('PTTL', lock) < tonumber(ARGV[at + 3]) then
            call('PEXPIRE', lock, ARGV[at + 3])
        end
        if unwritten then
            -- Out of memory, the next renewal writes it.
            redis.pcall('SET', lock, holder .. (mark == '~' and '+' or mark) .. ARGV[at + 2] .. label, 'KEEPTTL')
        end
        answers[i] = 1
    else
        answers[i] = 0
        open[#open + 1] = i
    end
end
if #open == 0 then
    return answers
end

