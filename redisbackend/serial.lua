-- A serial, 1 to 131,071, tells the states apart that a key has had, even at the same instant. A
-- taking at serial 7 is refunded only if the state still has serial 7: a state that was converted
-- or begun since has another one. A serial is the server's clock in microseconds modulo 131,071,
-- so two within 131 ms differ. If one script needs several, each is one above the one before.
newSerial = function()
  if not latestSerial then
    local time = redis.call('TIME')
    latestSerial = time[1] * 1000000 + time[2]
  end
  latestSerial = latestSerial + 1
  return latestSerial % 131071 + 1
end
