-- batch: verbs that were requested at the same time, one after the other. They are functions, defined before this.
--
-- KEYS: the keys of each verb, one verb after the other
-- ARGV: 1 a letter for each verb: e enters, l leaves, d leaves and writes a tombstone; then the arguments of each
-- Answer: the answer of each verb, or its error · or 'ALONE': no verb was run, each has to be sent alone
--
-- PR20: what is denied when memory is short, or the server takes no writes, depends on what a script writes first. So a
-- batch begins with a write that is denied whenever any write is. It changes nothing, because an id is never empty.
if type(redis.pcall('ZADD', KEYS[2], 'XX', '0', '')) ~= 'number' then
    return {ok = 'ALONE'}
end
local keys, args, letters, answers, k, a = KEYS, ARGV, ARGV[1], {}, 0, 1

-- A verb that fails must not fail the others.
for i = 1, #letters do
    local letter, done, answer = letters:sub(i, i)
    if letter == 'e' then
        done, answer = pcall(enter, keys[k + 1], keys[k + 2], keys[k + 3], keys[k + 4], keys[k + 5],
            args[a + 1], args[a + 2], args[a + 3], args[a + 4])
        k, a = k + 5, a + 4
    elseif letter == 'l' then
        done, answer = pcall(leave, keys[k + 1], keys[k + 2], keys[k + 3], nil,
            args[a + 1], args[a + 2], args[a + 3])
        k, a = k + 3, a + 3
    else
        done, answer = pcall(leave, keys[k + 1], keys[k + 2], keys[k + 3], keys[k + 4],
            args[a + 1], args[a + 2], args[a + 3], args[a + 4])
        k, a = k + 4, a + 4
    end
    if not done then
        -- Before 7.0 an error is a text, which may begin with its origin.
        local text = type(answer) == 'table' and answer.err or tostring(answer)
        answer = {err = text:sub(1, 1) == '@' and 'ERR ' .. text or text:gsub('^%-', '')}
    end
    answers[i] = answer
end
return answers
