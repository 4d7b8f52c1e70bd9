-- Fixed windows. Windows start at the multiples of their period.
--
--   at   the start of the window
--   a    the units in it
--   b    0
--
-- A window may owe units to the next one. Its state then has the debt behind its
-- serial: see debt.lua.

family = {
  ends = true, tail = ' 0',
  decide = function(most, P, _, asOf, at, a, b, n, debt, isRead)
    if isRead and (at % P ~= 0 or a > (debt and 2000000000 or most) or b > 0) then
      return nil
    end
    local age = asOf - at
    if age >= P then
      local windows = floor(age / P)
      a = debt and owedAfter(most, debt, windows) or 0
      debt = debt and owedAfter(most, debt, windows + 1)
      age = asOf % P
      at = asOf - age
    end
    local fits, reset = n == 0 or a + n <= most, 0
    if fits then
      a = a + n
    end
    if debt and debt > 0 then
      reset = P * windowsUntilFresh(most, P, debt) - age
    elseif a > 0 then
      reset = P - age
    end
    return fits, at, a, 0, reset, debt
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
    back.a, back.debt = s.a, s.debt
  end

  if settles then
    family.charge = function(s, n)
      return addOwed(s, n)
    end

    family.refund = function(s, n, final, ticket)
      local from = ticket - s.at
      if from < 0 or from >= s.limit.P then
        return 0
      end
      return subtract(s, n)
    end
  end
end
