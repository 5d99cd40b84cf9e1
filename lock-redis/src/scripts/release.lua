-- release: delete mutexes for which nobody waits. What is not that simple is left to `leave`.
--
-- KEYS: locks
-- ARGV: for each the id of its holder and ':', the mark of one for which nobody waits
-- Answer for each: 1 released · 0 the value is another · or an error
local answers = {}
for i, key in ipairs(KEYS) do
    local value, unmarked = redis.pcall('GET', key), ARGV[i]
    if type(value) == 'string' and value:sub(1, #unmarked) == unmarked then
        answers[i] = redis.pcall('DEL', key)
    else
        answers[i] = 0
    end
end
return answers
