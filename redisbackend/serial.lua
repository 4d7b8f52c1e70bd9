-- A serial, 1 to 131,071, tells a state from others that its key has had, also at the same instant. It is the
-- server's clock in microseconds, modulo 131,071, so two within 131 ms are never equal. One script may need
-- several: each is one above the one before. A taking at serial 7 is refunded only if the state still has 7;
-- a state that was converted or begun since has another.
newSerial = function()
  if not latestSerial then
    local time = redis.call('TIME')
    latestSerial = time[1] * 1000000 + time[2]
  end
  latestSerial = latestSerial + 1
  return latestSerial % 131071 + 1
end
