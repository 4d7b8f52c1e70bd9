-- Releases units of concurrency limits. To release a unit again does nothing.
--
-- KEYS   the keys
-- ARGV   for each key the ids of its units, 12 bytes each
-- reply  how many were held. A key that is no sorted set is left alone; an error if all
--        are, or the server refuses.

local released, failed, why = 0, 0, nil
for i = 1, #KEYS do
  local ids, arguments = ARGV[i], {}
  for at = 1, #ids, 12 do
    arguments[#arguments + 1] = string.sub(ids, at, at + 11)
  end
  local n = redis.pcall('ZREM', KEYS[i], unpack(arguments))
  if type(n) == 'number' then
    released = released + n
  else
    failed, why = failed + 1, n
  end
end
return failed < #KEYS and released or why
