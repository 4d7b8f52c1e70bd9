-- The clock of a script.
--
-- Numbers are whole and below 2^53, instants too, and so is every intermediate result. floor(x / y) is
-- then exact. An instant is subtracted from another before a time is added. Times are microseconds.
--
-- A call pays for each function that it makes, and for each variable that the function uses from
-- outside. So functions are made where they are first needed.

local floor, format, match, sub = math.floor, string.format, string.match, string.sub

-- now is the instant of the decision. grace is the time, in milliseconds, for which Redis keeps a state
-- after it is fresh: the clock that expires keys may be ahead. Tests give an instant, which may stand
-- still for longer.
local now, grace, latestSerial = tonumber(given), 86400000, nil
if not now then
  local time = redis.call('TIME')
  now, grace = time[1] * 1000000 + time[2], 1000
  latestSerial = now -- see newSerial
end

-- whole writes a number in full. %d is quicker, but has 32 bits on some servers.
local whole = format('%d', 4294967296) == '4294967296' and '%d' or '%.0f'
local wholes = ' ' .. whole .. ' ' .. whole .. ' ' .. whole

local muldiv, timeOf -- see products.lua
local owedAfter, windowsUntilFresh -- see debt.lua
local newSerial -- see serial.lua
local min, max, noteLevel, encodeRing, decodeRing, worth, lower -- see bucket_ring.lua
local family -- what a file of a family sets besides take; nil where only take is needed
