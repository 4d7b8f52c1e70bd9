-- The clock of a script, and the arithmetic that all families share.
--
-- Numbers are whole and below 2^53, instants too, and so is every intermediate
-- result. floor(x / y) is then exact. An instant is subtracted from another before a
-- time is added. Times are microseconds.
--
-- What a script makes costs each call, functions too. So each is made where it is first needed.

local floor, format, match, sub = math.floor, string.format, string.match, string.sub

-- now is the instant of the decision. grace is the time, in milliseconds, for which
-- Redis keeps a state after it is fresh: the clock that expires keys may be ahead. Tests
-- give an instant, which may stand still for longer.
local now, grace = tonumber(given), 86400000
if not now then
  local time = redis.call('TIME')
  now, grace = time[1] * 1000000 + time[2], 1000
end

-- muldiv returns the quotient and remainder of a*m/d, for a <= d < 2^45, m < 2^35.
local function muldiv(a, m, d)
  local product = a * m
  if product < 9007199254740992 then
    local q = floor(product / d)
    return q, product - q * d
  end
  local q, r = 0, 0
  for _, power in ipairs({ 268435456, 2097152, 16384, 128, 1 }) do
    local x = r * 128 + a * (floor(m / power) % 128)
    local digit = floor(x / d)
    q, r = q * 128 + digit, x - digit * d
  end
  return q, r
end

-- timeOf returns the time in which n units come, n <= 2 * limit.most: whole
-- microseconds, and the fraction of another in Q-ths.
local function timeOf(limit, n)
  if limit.unitFrac == 0 then
    return n * limit.unitTime, 0
  end
  local us, frac = muldiv(limit.unitFrac, n, limit.Q)
  return n * limit.unitTime + us, frac
end
