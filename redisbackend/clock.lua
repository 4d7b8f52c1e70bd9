-- The clock of a script.
--
-- All numbers are whole and below 2^53, and so is each intermediate result. floor(x / y) is then
-- exact. Times and instants are microseconds. Subtract instants from each other before you add
-- times to them.
--
-- A call pays for each function that it creates, and for each outer variable in it. So scripts
-- create functions where they first need them.

local floor, format, match, sub = math.floor, string.format, string.match, string.sub

-- now is the instant of the decision. Redis keeps a state for grace milliseconds after it is
-- fresh, since the clock that expires keys may be ahead. Tests give an instant, which may stand
-- still for a day.
local now, grace, latestSerial = tonumber(given), 86400000, nil
if not now then
  local time = redis.call('TIME')
  now, grace = time[1] * 1000000 + time[2], 1000
  latestSerial = now -- see serial.lua
end

-- whole is the format of a number in full. %d is quicker, but has 32 bits on some servers: eleven
-- characters at most.
local nowText, whole, wholes, pair = format('%d', now), '%d', ' %d %d %d', ' %d %d'
if #nowText <= 11 then
  whole, wholes, pair = '%.0f', ' %.0f %.0f %.0f', ' %.0f %.0f'
  nowText = format(whole, now)
end

local muldiv, timeOf -- see products.lua
local owedAfter, windowsUntilFresh -- see debt.lua
local newSerial -- see serial.lua
local min, max, noteLevel, encodeRing, decodeRing, worth, lower -- see bucket_ring.lua
local states -- true where a family needs all that state.lua asks for: see familyOf
