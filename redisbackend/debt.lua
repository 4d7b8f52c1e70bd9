-- What windows owe to the next ones.

-- windowsUntilFits returns the least number of windows after which n units, at most the
-- maximum, fit on top of what is left of a debt. After 200 years it is forgiven: only a
-- limit that was lowered far below a debt takes longer.
windowsUntilFits = function(most, P, debt, n)
  local windows = floor((debt + n - 1) / most)
  return 1 + math.min(windows, floor(6311520000000000 / P))
end

-- owedAfter returns what is left of a debt at the start of the n-th window after the one
-- that made it: each takes as many units off it as its maximum.
owedAfter = function(most, debt, n)
  if debt == 0 or n - 1 > floor(debt / most) then
    return 0
  end
  return math.max(0, debt - (n - 1) * most)
end
