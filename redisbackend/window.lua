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

-- fadesTo returns the first time into a window of P at which n units of the window
-- before weigh no more than m: the least x with floor(n(P-x)/P) <= m.
local function fadesTo(P, n, m)
  if n <= m then
    return 0
  end
  local whole = floor(P / n)
  local q, r = muldiv(P - whole * n, m + 1, n)
  return P + 1 - (m + 1) * whole - q - (r > 0 and 1 or 0)
end

local function window(limit, asOf, at, a, b, n, debt, isRead)
  local P, most, slides = limit.P, limit.most, limit.algorithm == 's'
  if isRead and (at % P ~= 0 or a > 2 * most or b > (slides and 2000000000 or 0) or a > most and not slides and not debt) then
    return nil
  end
  local age = asOf - at
  if age >= P then
    if debt then
      local windows = floor(age / P)
      a, debt = owedAfter(limit, debt, windows), owedAfter(limit, debt, windows + 1)
    else
      b = slides and age < 2 * P and a or 0
      a = 0
    end
    age = asOf % P
    at = asOf - age
  end

  local used = a
  if b > 0 then
    used = a + muldiv(P - age, b, P)
  end
  local fits = n == 0 or used + n <= most
  local asked = n
  if fits then
    a, used, asked = a + n, used + n, 1
  end
  local left = used < most and most - used or 0

  local reset = 0
  if debt and debt > 0 then
    reset = P * windowsUntilFits(limit, debt, most) - age
  elseif a > 0 then
    reset = (slides and 2 or 1) * P - age
  elseif b > 0 then
    reset = P - age
  end

  local wait
  if not slides then
    wait = P * windowsUntilFits(limit, debt or 0, asked) - age
  elseif fits and left > 0 then
    local frac
    wait, frac = timeOf(limit, left)
    wait = frac > 0 and wait + 1 or wait
  elseif a + asked <= most then
    wait = fadesTo(P, b, most - a - asked) - age
  else
    wait = P - age + fadesTo(P, a, most - asked)
  end
  return fits, at, a, b, left, reset, wait, debt
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
    encode = encode,
    used = used,

    read = function(s, text)
      s.debt = tonumber(text) or 0
      return s.limit.algorithm == 'f' and s.debt > 0 and s.debt <= min(s.a, s.limit.most)
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
