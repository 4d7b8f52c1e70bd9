-- Forgets a key.
--
-- KEYS   the key
-- reply  1, or 0 if it had no state

return redis.call('DEL', KEYS[1])
