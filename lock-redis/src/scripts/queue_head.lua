-- queue: holders and waiters, holders first. Changes nothing, and leaves dead entries out.
--
-- KEYS: 1 the lock · 2 its queue · 3 its entries
-- Answer: {kind, limit, row…}, a row is {role, id, token, permits, lease left in ms, label}; role: h holds, w waits, f is
--         a foreign holder (lease -1: no end). Or {'F', type}.
local call, raw, q, e = redis.call, KEYS[1], KEYS[2], KEYS[3]
local id, channel, now_us

