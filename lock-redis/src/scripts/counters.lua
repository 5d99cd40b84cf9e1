-- counters: the counters of tokens, as they are. Changes nothing.
--
-- KEYS: counters
-- Answer: {the time in ms, {number of the key, type, last id}…}, with those that exist; a last id is '' for another type than a stream
local time = redis.call('TIME')
local answers = {time[1] .. string.format('%06d', time[2]):sub(1, 3)}
for i, key in ipairs(KEYS) do
    local kind, last = redis.call('TYPE', key).ok, ''
    if kind == 'stream' then
        local info = redis.pcall('XINFO', 'STREAM', key)
        if info.err then
            -- Before 7.0, the server words this without a code.
            return {err = 'NOPERM this user may not call XINFO'}
        end
        for at = 1, #info, 2 do
            if info[at] == 'last-generated-id' then
                last = info[at + 1]
            end
        end
    end
    if kind ~= 'none' then
        answers[#answers + 1] = {i, kind, last}
    end
end
return answers
