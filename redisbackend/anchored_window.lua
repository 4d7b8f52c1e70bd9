-- Anchored windows. A window starts with the first taking of a key.
--
--   at   the start of the window
--   a    the units in it
--   b    those of them that were taken at its start
--
-- A window that owes units to the next has a state of version 2, which has their number behind the ";".
-- In memory that is debt. The next window then starts at its end.

take = function(most, P, _, asOf, at, a, b, n, debt, isRead)
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
end

if family then
  family.ends = true

  family.encode = function(s)
    return s.debt and s.debt > 0 and digits(s.debt)
  end

  family.read = function(s, text)
    s.debt = tonumber(text) or 0
    return s.debt > 0 and s.debt < s.a
  end

  family.rebase = function(s, back)
    back.a = min(s.a, s.limit.most)
    back.b = back.a
  end

  if settles then
    family.owe = function(s, n)
      n = addOwed(s, n)
      if s.at == s.asOf then
        s.b = s.b + n
      end
      return n
    end

    -- If a taking that started the window should have cost nothing, the window of others would have
    -- started later. The core refunds nothing then; a give-back does if others took at the start, too.
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
