-- What windows owe to the next ones.

-- owedAfter returns what is left of a debt at the start of the n-th window after the one that made it:
-- each takes as many units off it as its maximum.
owedAfter = function(most, debt, n)
  if debt == 0 or n - 1 > floor(debt / most) then
    return 0
  end
  return math.max(0, debt - (n - 1) * most)
end

-- windowsUntilFresh returns how many windows a window with a debt, and those that start with what is
-- left of it, last. After 200 years it is forgiven: only a limit that was lowered far below a debt
-- takes longer.
windowsUntilFresh = function(most, P, debt)
  return 1 + math.min(floor((debt + most - 1) / most), floor(6311520000000000 / P))
end
