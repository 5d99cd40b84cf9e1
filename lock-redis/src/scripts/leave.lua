read_lock()
if not left then
    local role, _, expiry, permits = find()
    remove(role, permits)
    left = role and expiry > now and 1 or 0
end
settle()
if alarms then
    redis.pcall('PUBLISH', alarms, id)
end
return left
