-- perhaps_ours: which of these keys may hold our data. Changes nothing, and reads a few bytes of each value, however long it is.
--
-- KEYS: for mutexes the locks, for other kinds their entries
-- ARGV: 1 'm' or ''
-- Answer for each: 1 it may be ours · 0 it is not
local answers = {}
for i, key in ipairs(KEYS) do
    local ours
    if ARGV[1] == 'm' then
        -- Up to the character after the token, which has at most 20 digits.
        local value = redis.pcall('GETRANGE', key, 0, 53)
        local id, rest = (type(value) == 'string' and value or ''):match('^([0-9a-f]+)[:+~]%d*(.?)')
        ours = id and #id == 32 and (rest == '' or rest == ':')
    else
        ours = redis.pcall('HEXISTS', key, 'k') == 1
    end
    answers[i] = ours and 1 or 0
end
return answers
