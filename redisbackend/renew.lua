-- Renews units of concurrency limits. A unit that the server does not know is put back, even above
-- the limit: its request is under way.
--
-- KEYS   the keys; a key may occur several times
-- ARGV   the number of the call
--        for each key the ids of its units, 12 bytes each, and the time for which units are held,
--        in microseconds, the same for all
--        the instant in microseconds since the Unix epoch, if the server's clock does not decide
-- reply  the number of the call
--        for each key how many of its units the server did not know, or an error as in take.lua

local hold, instant, grace = tonumber(ARGV[3]), tonumber(ARGV[2 * #KEYS + 2]), 86400000
if not instant then
  local time = redis.call('TIME')
  instant, grace = time[1] * 1000000 + time[2], 1000
end
local now, score = string.format('%.0f', instant), string.format('%.0f', instant + hold)
local ttl = string.format('%.0f', math.ceil(hold / 1000) + grace)

local most = 500 -- units past their ends that this script removes

local function renew(key, ids)
  -- First a command that writes and needs no memory. A server without memory refuses only the
  -- first command that needs some, and must not forget units that are held.
  local over = redis.pcall('ZCOUNT', key, '-inf', now)
  if type(over) == 'number' then
    over = math.min(over, most)
    most = most - over
    redis.pcall('ZREMRANGEBYRANK', key, over > 0 and 0 or 1, math.max(0, over - 1))
  end
  local unknown, arguments = 0, {}
  for at = 1, #ids, 12 do
    arguments[#arguments + 1] = score
    arguments[#arguments + 1] = string.sub(ids, at, at + 11)
    if #arguments == 1000 or at + 12 > #ids then
      local added = redis.pcall('ZADD', key, unpack(arguments))
      if type(added) ~= 'number' then
        local errorOf
        --- error
        return errorOf(added)
      end
      unknown, arguments = unknown + added, {}
    end
  end
  redis.call('PEXPIRE', key, ttl)
  return string.format(' %d', unknown)
end

local reply = { ARGV[1] }
for i = 1, #KEYS do
  reply[i + 1] = renew(KEYS[i], ARGV[2 * i])
end
return table.concat(reply)
