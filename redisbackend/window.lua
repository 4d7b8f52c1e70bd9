-- Fixed and sliding windows. Windows start at the multiples of their period. A sliding
-- window also counts the units of the window before, in proportion to the part of it
-- that is less than a period ago.
--
--   at   the start of the window
--   a    the units in it
--   b    the units in the window before; 0 for a fixed window
--
-- A fixed window that owes units to the next has a state of version 2, which has their
-- number behind the ";". In memory that is debt. A sliding window owes by its weight.

local slides = algorithm == 's'
if not isRead or at % P == 0 and a <= (debt and 2000000000 or slides and 2 * most or most) and b <= (slides and 2000000000 or 0) then
  local age = asOf - at
  if age >= P then
    if debt then
      local windows = floor(age / P)
      a, debt = owedAfter(most, debt, windows), owedAfter(most, debt, windows + 1)
    else
      b = slides and age < 2 * P and a or 0
      a = 0
    end
    age = asOf % P
    at = asOf - age
  end

  local used, asked = a, n
  if b > 0 then
    used = a + (muldiv and muldiv(P - age, b, P) or floor((P - age) * b / P))
  end
  fits = n == 0 or used + n <= most
  if fits then
    a, used, asked = a + n, used + n, 1
  end
  left = used < most and most - used or 0

  reset = 0
  if debt and debt > 0 then
    reset = P * windowsUntilFits(most, P, debt, most) - age
  elseif a > 0 then
    reset = (slides and 2 or 1) * P - age
  elseif b > 0 then
    reset = P - age
  end

  if not slides then
    window = (debt and P * windowsUntilFits(most, P, debt, asked) or P) - age
  else
    local whole, units, from = Q, left, nil -- the time in which what is left comes
    if not fits or left == 0 then
      -- Until no more than m units of the window before count, or of this one once it is over: the
      -- least x with floor(whole(P-x)/P) <= m.
      local m = most - a - asked
      whole, from = b, -age
      if m < 0 then
        whole, m, from = a, most - asked, P - age
      end
      units = m + 1
    end
    if from and whole < units then
      window = from
    else
      local us, frac
      if timeOf then
        us, frac = timeOf(P, whole, units)
      else
        us = floor(P * units / whole)
        frac = P * units - us * whole
      end
      us = frac > 0 and us + 1 or us
      window = from and from + P + 1 - us or us
    end
  end
  extra = debt
end

--- more

families.window = function()
  local function encode(s)
    return s.debt and s.debt > 0 and digits(s.debt)
  end

  local function used(s)
    if s.b > 0 then
      return s.a + muldiv(s.limit.P - (s.asOf - s.at), s.b, s.limit.P)
    end
    return s.a
  end

  return {
    ends = true,
    encode = encode,
    used = used,

    read = function(s, text)
      s.debt = tonumber(text) or 0
      return s.limit.algorithm == 'f' and s.debt > 0 and s.debt < s.a
    end,

    rebase = function(s, back)
      back.a = min(s.a + s.b, s.limit.most)
    end,

    owe = function(s, n)
      local most = s.limit.most
      n = max(0, min(n, 2 * most - used(s)))
      s.a = s.a + n
      if s.limit.algorithm == 'f' then
        s.debt = max(0, min(s.a - most, (s.debt or 0) + n))
      end
      return n
    end,

    refund = function(s, n, final, ticket)
      local from, P = ticket - s.at, s.limit.P
      if from >= 0 and from < P then
        n = min(n, s.a)
        s.a = s.a - n
        s.debt = s.debt and max(0, min(s.debt, s.a - s.limit.most))
      elseif s.limit.algorithm == 's' and from < 0 and from >= -P then
        n = min(n, s.b)
        s.b = s.b - n
      else
        return 0
      end
      if n > 0 then
        keep(s, s.a == 0 and s.b == 0)
      end
      return n
    end,
  }
end
