-- Takes back units of concurrency limits that were lent: those that their holder took last, or if
-- they have no holder those that were taken last.
--
-- KEYS   the keys; a key may occur several times
-- ARGV   the number of the call
--        for each key how many units, and the id of the holder's first unit or ''
--        the instant in microseconds since the Unix epoch, if the server's clock does not decide
-- reply  the number of the call
--        for each key how many units came back, or an error as in take.lua

local now = tonumber(ARGV[2 * #KEYS + 2])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

--- ids

-- latest returns the ids of the latest n units without a holder.
local function latest(key, n)
  local ids, last = {}, -1
  while true do
    local some = redis.call('ZRANGE', key, last - 99, last, 'WITHSCORES')
    for i = #some - 1, 1, -2 do
      if #ids == n or tonumber(some[i + 1]) <= now then
        return ids
      elseif byte(some[i]) == 66 then
        ids[#ids + 1] = some[i]
      end
    end
    if #some < 200 then
      return ids
    end
    last = last - 100
  end
end

local function takeBack(key, n, first)
  local ids = {}
  if first == '' then
    ids = latest(key, n)
  else
    local has = unitsOf(key, first)
    for i = math.max(0, has - n), has - 1 do
      ids[#ids + 1] = following(first, i)
    end
  end
  for i = 1, #ids, 1000 do
    redis.call('ZREM', key, unpack(ids, i, math.min(i + 999, #ids)))
  end
  return string.format(' %d', #ids)
end

local reply = { ARGV[1] }
for i = 1, #KEYS do
  local fine, text = pcall(takeBack, KEYS[i], tonumber(ARGV[2 * i]), ARGV[2 * i + 1])
  if not fine then
    local errorOf
    --- error
    text = errorOf(text)
  end
  reply[i + 1] = text
end
return table.concat(reply)
