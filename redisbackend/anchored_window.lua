-- Anchored windows. A window starts with the first taking of a key.
--
--   at   the start of the window
--   a    the units in it
--   b    those of them that were taken at its start
--
-- A window may owe units to the next one. Its state then has the debt behind its
-- serial. The next window starts when it ends.
--
-- For example 10 a minute are allowed. A request takes 5 units at 12:00:20, and its settlement
-- charges 10 more. The window from 12:00:20 has a = 15 and a debt of 5. The next one starts at
-- 12:01:20 with a = 5.

family = {
  ends = true, tail = ' 0',
  decide = function(most, P, _, asOf, at, a, b, n, debt, isRead)
    local highest = debt and 2000000000 or most
    if isRead and (a > highest or b > highest) then
      return nil
    end
    local age = asOf - at
    if a == 0 or age >= P then
      local windows = floor(age / P)
      a = debt and owedAfter(most, debt, windows) or 0
      debt = debt and owedAfter(most, debt, windows + 1)
      at = a > 0 and at + windows * P or asOf
      b, age = a, asOf - at
    end
    local fits, reset = n == 0 or a + n <= most, 0
    if fits then
      a = a + n
      if at == asOf then
        b = b + n
      end
    end
    if debt and debt > 0 then
      reset = P * windowsUntilFresh(most, P, debt) - age
    elseif a > 0 then
      reset = P - age
    end
    return fits, at, a, b, reset, debt
  end,
}

if states then
  family.encode = function(s)
    return s.debt and s.debt > 0 and digits(s.debt)
  end

  family.read = function(s, text)
    s.debt = tonumber(text) or 0
    return s.debt > 0 and s.debt < s.a
  end

  family.rebase = function(s, back)
    back.a, back.b, back.debt = s.a, s.a, s.debt
  end

  if settles then
    family.charge = function(s, n)
      n = addOwed(s, n)
      if s.at == s.asOf then
        s.b = s.b + n
      end
      return n
    end

    -- The taking that started the window may turn out to cost nothing. Without it the window of
    -- later takings would have started later, so nothing is refunded. A give-back does refund it
    -- if others took at the start, too.
    family.refund = function(s, n, final, ticket)
      local from = ticket - s.at
      if from < 0 or from >= s.limit.P or n > s.a then
        return 0
      elseif from == 0 and s.a > n and (final == 0 or not final and s.b <= n) then
        return 0
      end
      s.b = min(s.a - n, from == 0 and max(0, s.b - n) or s.b)
      return subtract(s, n)
    end
  end
end
