-- Counts the processes that beat. The score of a process is the instant at which it ends unless it
-- beats again.
--
-- KEYS   the sorted set
-- ARGV   the number of the call
--        the member of this process
--        how long it lasts in microseconds; 0: this process ends, and is removed
--        the instant in microseconds since the Unix epoch, if the server's clock does not decide
-- reply  the number of the call
--        how many processes there are

local key, member, lasts = KEYS[1], ARGV[2], tonumber(ARGV[3])
local instant, grace = tonumber(ARGV[4]), 86400000
if not instant then
  local time = redis.call('TIME')
  instant, grace = time[1] * 1000000 + time[2], 1000
end

-- This comes first: a script that has written may write in a server whose memory is full.
redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', instant))
if lasts == 0 then
  redis.call('ZREM', key, member)
else
  -- If the clock has stepped back, processes that have crashed would count for the length of the
  -- step. Living ones are back with their next beat.
  redis.call('ZREMRANGEBYSCORE', key, string.format('(%.0f', instant + 2 * lasts), '+inf')
  redis.call('ZADD', key, string.format('%.0f', instant + lasts), member)
  redis.call('PEXPIRE', key, string.format('%.0f', math.ceil(lasts / 1000) + grace))
end
return string.format('%s %d', ARGV[1], redis.call('ZCARD', key))
