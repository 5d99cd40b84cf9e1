local function renew(i)
    local at = 4 * i - 2
    raw, q, e, id = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i], ARGV[at + 1]
    read_lock()
    local role, token, expiry, permits, process, label = find()
    if role and expiry <= now then
        remove(role, permits)
    elseif role and role ~= 'waiter' and token == ARGV[at + 2] then
        -- A waiter is not renewed: it keeps its place by entering again. A waiter that believes a forged hint of its grant learns here
        -- that it does not hold the lock.
        refresh(ARGV[at + 3], role, token, expiry, permits, process, label)
        answers[i] = 1
    end
    settle()
end

-- A lease that fails must not fail the others.
for _, i in ipairs(open) do
    local ok, trouble = pcall(renew, i)
    if not ok and answers[i] == 0 then
        answers[i] = type(trouble) == 'table' and trouble.err or tostring(trouble)
    end
end
return answers
