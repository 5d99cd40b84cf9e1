read_lock()
if not left then
    local role, _, expiry, permits = find()
    remove(role, permits)
    left = role and expiry > now and 1 or 0
end
settle()
if ARGV[5] then
    redis.pcall('PUBLISH', ARGV[5], id)
end
return left
