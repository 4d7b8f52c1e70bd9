-- The debts of windows to the next ones. For example windows of 10 units owe 25: the next window
-- starts with 25, and owes 15 in turn; then come one with 15, one with 5, and a fresh one.

-- owedAfter returns the rest of a debt at the start of the n-th window after the one that made it.
-- Each window in between takes its maximum off.
owedAfter = function(most, debt, n)
  if debt == 0 or n - 1 > floor(debt / most) then
    return 0
  end
  return math.max(0, debt - (n - 1) * most)
end

-- windowsUntilFresh returns how many windows a window with a debt lasts, together with those that
-- start with a part of the debt. After 200 years the debt is forgiven: it takes that long only
-- after a limit was lowered far below the debt.
windowsUntilFresh = function(most, P, debt)
  return 1 + math.min(floor((debt + most - 1) / most), floor(6311520000000000 / P))
end
