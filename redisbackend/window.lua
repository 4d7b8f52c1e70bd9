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

local function window(slides)
  local function used(limit, s)
    if s.b > 0 then
      return s.a + muldiv(limit.P - (s.asOf - s.at), s.b, limit.P)
    end
    return s.a
  end

  -- fadesTo returns the first time into a window at which n units of the window
  -- before weigh no more than m: the least x with floor(n(P-x)/P) <= m.
  local function fadesTo(limit, n, m)
    if n <= m then
      return 0
    end
    local whole = floor(limit.P / n)
    local q, r = muldiv(limit.P - whole * n, m + 1, n)
    return limit.P - ((m + 1) * whole + ceil(q, r)) + 1
  end

  local function take(limit, s, n)
    s.a = s.a + n
  end

  local function untilFresh(limit, s)
    if s.debt and s.debt > 0 then
      return s.at - now + limit.P * windowsUntilFits(limit, s.debt, limit.most)
    elseif s.a > 0 then
      return s.at - now + (slides and 2 or 1) * limit.P
    elseif s.b > 0 then
      return s.at - now + limit.P
    end
    return s.at - now
  end

  local function owes(s)
    return s.debt and s.debt > 0
  end

  return {
    refillsAtOnce = not slides,
    layout = numbersLayout,
    decode = decodeNumbers,

    write = function(key, limit, s, wait)
      writeNumbers(key, limit, s, wait, owes(s) and digits(s.debt) or nil)
    end,

    more = function(limit, s, text)
      s.debt = tonumber(text) or 0
      return not slides and s.debt > 0 and s.debt <= min(s.a, limit.most)
    end,

    take = take,
    used = used,
    untilFresh = untilFresh,

    possible = function(limit, s)
      s.more = not slides and s.a > limit.most
      return s.at % limit.P == 0 and s.a <= 2 * limit.most and s.b <= (slides and 2000000000 or 0)
    end,

    fresh = function(limit, asOf)
      return { asOf = asOf, at = asOf - asOf % limit.P, a = 0, b = 0 }
    end,

    advance = function(limit, s)
      local age = s.asOf - s.at
      if age >= limit.P then
        if not slides then
          s.serial = nil -- nothing is returned to a window that is over
        end
        if owes(s) then
          local n = floor(age / limit.P)
          s.a, s.debt = owedAfter(limit, s.debt, n), owedAfter(limit, s.debt, n + 1)
        else
          s.b = slides and age < 2 * limit.P and s.a or 0
          s.a = 0
        end
        s.at = s.asOf - s.asOf % limit.P
      end
      return s
    end,

    rebase = function(limit, s, back)
      take(limit, back, min(s.a + s.b, limit.most))
    end,

    remaining = function(limit, s)
      return max(0, limit.most - used(limit, s))
    end,

    fits = function(limit, s, n)
      return n == 0 or used(limit, s) + n <= limit.most
    end,

    untilFits = function(limit, s, n)
      local age = s.asOf - s.at
      if slides and s.a + n <= limit.most then
        return fadesTo(limit, s.b, limit.most - s.a - n) - age
      end
      if slides then
        return limit.P - age + fadesTo(limit, s.a, limit.most - n)
      end
      return limit.P * windowsUntilFits(limit, s.debt or 0, n) - age
    end,

    mayOwe = function(limit, s)
      return max(0, 2 * limit.most - used(limit, s))
    end,

    owe = function(limit, s, n)
      if not slides then
        s.debt = max(0, min(s.a - limit.most, (s.debt or 0) + n))
      end
    end,

    refund = function(limit, s, key, n, final, ticket)
      local from = ticket - s.at
      if from >= 0 and from < limit.P then
        n = min(n, s.a)
        s.a = s.a - n
        s.debt = owes(s) and max(0, min(s.debt, s.a - limit.most)) or nil
      elseif slides and from < 0 and from >= -limit.P then
        n = min(n, s.b)
        s.b = s.b - n
      else
        return 0
      end
      if n > 0 then
        keep(key, limit, s, s.a == 0 and s.b == 0)
      end
      return n
    end,
  }
end
