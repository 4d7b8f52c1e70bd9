-- What windows owe to the next ones.

-- windowsUntilFits returns the least number of windows after which n units, at most the
-- maximum, fit on top of what is left of a debt. After 200 years it is forgiven: only a
-- limit that was lowered far below a debt takes longer.
local function windowsUntilFits(limit, debt, n)
  local windows = floor((debt + n - 1) / limit.most)
  local most = floor(6311520000000000 / limit.P)
  return 1 + (windows < most and windows or most)
end

-- owedAfter returns what is left of a debt at the start of the n-th window after the one
-- that made it: each takes as many units off it as its maximum.
local function owedAfter(limit, debt, n)
  if debt == 0 or n - 1 > floor(debt / limit.most) then
    return 0
  end
  local left = debt - (n - 1) * limit.most
  return left > 0 and left or 0
end
