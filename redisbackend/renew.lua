-- Has units of concurrency limits held for another while. A unit that the server does
-- not know is put back, even above the limit: its request is under way.
--
-- KEYS   the keys
-- ARGV   1 for how long the units are held, in microseconds
--        2 the instant in microseconds since the Unix epoch, "" for the server's
--        3 and on: for each key the ids of its units, 12 bytes each
-- reply  how many of them the server did not know. A key that is no sorted set is left
--        alone; an error if all are, or the server refuses.

local hold, instant, grace = tonumber(ARGV[1]), tonumber(ARGV[2]), 86400000
if not instant then
  local time = redis.call('TIME')
  instant, grace = time[1] * 1000000 + time[2], 1000
end
local now, score = string.format('%.0f', instant), string.format('%.0f', instant + hold)
local ttl = string.format('%.0f', math.ceil(hold / 1000) + grace)
local unknown, failed, why = 0, 0, nil
for i = 1, #KEYS do
  -- First a command that needs no memory: a server that has none left refuses only the
  -- first one that does, and must not forget units that are held.
  redis.pcall('ZREMRANGEBYSCORE', KEYS[i], '-inf', now)
  local ids, arguments = ARGV[i + 2], {}
  for at = 1, #ids, 12 do
    arguments[#arguments + 1] = score
    arguments[#arguments + 1] = string.sub(ids, at, at + 11)
  end
  local added = redis.pcall('ZADD', KEYS[i], unpack(arguments))
  if type(added) == 'number' then
    unknown = unknown + added
    redis.call('PEXPIRE', KEYS[i], ttl)
  else
    failed, why = failed + 1, added
  end
end
return failed < #KEYS and unknown or why
