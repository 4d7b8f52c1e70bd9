-- A serial tells a state from others that its key has had, also at the same instant. It comes from the
-- server's clock: two within 131 ms are never equal. One script may need several.
newSerial = function()
  if not latestSerial then
    local time = redis.call('TIME')
    latestSerial = time[1] * 1000000 + time[2]
  end
  latestSerial = latestSerial + 1
  return latestSerial % 131071 + 1
end
