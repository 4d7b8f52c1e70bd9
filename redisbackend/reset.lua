-- Forgets keys.
--
-- KEYS   the keys; one may be there several times
-- ARGV   the number of the call
-- reply  that number; for each key 1, or 0 if it had no state

local reply = { ARGV[1] }
for i, key in ipairs(KEYS) do
  reply[i + 1] = redis.call('DEL', key)
end
return table.concat(reply, ' ')
