-- leave: leave the queue, holding or waiting, whatever the token. Also evicts an entry for an operator.
--
-- Keys: raw the lock · q its queue · e its entries · tombstone that of this entry, if a create was not answered
-- Arguments: id · fast 'm' for a mutex, else '' · channel of the caller · life of the tombstone in ms, or '' or nothing
--            alarms: a channel to tell, or nothing
-- Answer: 1 left · 0 was not there · text: left, and the hint for the next holder, which is in the calling process: the answer
--         comes sooner than the message
local left

-- PR08: a create that is still on its way finds the tombstone. PR20: DEL first, which is never denied.
if tombstone then
    call('DEL', tombstone)
    call('SET', tombstone, '', 'PX', life)
end
if fast == 'm' then
    local value = redis.pcall('GET', raw)
    if type(value) == 'string' and value:match('^([0-9a-f]+)[:+~]') == id then
        -- PR20: a write that is never denied.
        local heir = call('ZPOPMIN', q)[1]
        if not heir then
            call('DEL', raw)
            return 1
        end
        if not now_us then
            local time = call('TIME')
            now_us = time[1] .. string.format('%06d', time[2])
        end
        local entry = call('HGET', e, heir) or ''
        local token, expiry, process, label = entry:match('^(%d+) %d+ (%d+) 1 (%S+) (.*)$')
        if token and tonumber(expiry) * 1000 > tonumber(now_us) then
            -- This writes what `admit` and `settle` would write for the one heir of a mutex.
            local others = call('EXISTS', q) == 1
            call('SET', raw, heir .. (others and '+' or ':') .. token .. label, 'PXAT', expiry)
            if others then
                call('HDEL', e, heir)
            else
                call('DEL', e)
            end
            -- Published even if the answer contains it: the answer may be lost, or its caller gone.
            local hint = 'A ' .. heir .. ' ' .. token
            redis.pcall('PUBLISH', channel:sub(1, -33) .. process, hint)
            return process == channel:sub(-32) and hint or 1
        end
        call('DEL', raw)
        call('HDEL', e, heir)
        left = 1
    end
end

