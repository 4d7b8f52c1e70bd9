-- Anchored windows. A window starts with the first taking of a key.
--
--   at   the start of the window
--   a    the units in it
--   b    those of them that were taken at its start
--
-- A window that owes units to the next has a state of version 2, which has their number
-- behind the ";". In memory that is debt. The next window then starts at its end.

if not isRead or a <= (debt and 2000000000 or most) and b <= (debt and 2000000000 or most) then
  local age = asOf - at
  if a == 0 or age >= P then
    local windows = floor(age / P)
    a = debt and owedAfter(most, debt, windows) or 0
    debt = debt and owedAfter(most, debt, windows + 1)
    at = a > 0 and at + windows * P or asOf
    b, age = a, asOf - at
  end
  local asked = n
  fits = n == 0 or a + n <= most
  if fits then
    a, asked = a + n, 1
    if at == asOf then
      b = b + n
    end
  end
  left, reset = a < most and most - a or 0, 0
  if debt and debt > 0 then
    reset = P * windowsUntilFits(most, P, debt, most) - age
  elseif a > 0 then
    reset = P - age
  end
  window, extra = (debt and P * windowsUntilFits(most, P, debt, asked) or P) - age, debt
end

--- more

families.anchored_window = function()
  return {
    ends = true,

    encode = function(s)
      return s.debt and s.debt > 0 and digits(s.debt)
    end,

    read = function(s, text)
      s.debt = tonumber(text) or 0
      return s.debt > 0 and s.debt < s.a
    end,

    used = function(s)
      return s.a
    end,

    rebase = function(s, back)
      back.a = min(s.a, s.limit.most)
      back.b = back.a
    end,

    owe = function(s, n)
      local most = s.limit.most
      n = max(0, min(n, 2 * most - s.a))
      if s.at == s.asOf then
        s.b = s.b + n
      end
      s.a = s.a + n
      s.debt = max(0, min(s.a - most, (s.debt or 0) + n))
      return n
    end,

    -- If a taking that started the window should have cost nothing, the window of others
    -- would have started later. The core refunds nothing then; a give-back does if
    -- others took at the start, too.
    refund = function(s, n, final, ticket)
      local from = ticket - s.at
      if from < 0 or from >= s.limit.P or n > s.a then
        return 0
      elseif from == 0 and s.a > n and (final == 0 or not final and s.b <= n) then
        return 0
      end
      s.a = s.a - n
      s.b = min(s.a, from == 0 and max(0, s.b - n) or s.b)
      s.debt = max(0, min(s.debt or 0, s.a - s.limit.most))
      keep(s, s.a == 0)
      return n
    end,
  }
end
