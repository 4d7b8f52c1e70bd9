-- Forgets a key.
--
-- KEYS   the key
-- ARGV   the number of the call
-- reply  that number; and 1, or 0 if the key had no state

return string.format('%s %d', ARGV[1], redis.call('DEL', KEYS[1]))
