-- Sliding windows. Windows start at the multiples of their period. Units of the window before
-- count in proportion to the part of that window that is less than a period ago.
--
--   at   the start of the window
--   a    the units in it
--   b    the units in the window before
--
-- For example 40 s of a minute have passed, and a = 5 and b = 30. The last 20 s of the window
-- before still count: 5 + 30 * 20/60 = 15 units are in use.
--
-- A window owes nothing to the next one: its units count there by their weight anyhow.

family = {
  products = true,
  decide = function(most, P, _, asOf, at, a, b, n, _, isRead)
    if isRead and (at % P ~= 0 or a > 2 * most or b > 2000000000
        or not muldiv and b > 2 * most) then
      return nil
    end
    local age = asOf - at
    if age >= P then
      b = age < 2 * P and a or 0
      a, age = 0, asOf % P
      at = asOf - age
    end
    local used = a
    if b > 0 then
      used = a + (muldiv and muldiv(P - age, b, P) or floor((P - age) * b / P))
    end
    local fits = n == 0 or used + n <= most
    if fits then
      a = a + n
    end
    return fits, at, a, b, a > 0 and 2 * P - age or b > 0 and P - age or 0
  end,
}

if states then
  local function used(s)
    local P = s.limit.P
    return s.a + (muldiv(P - (s.asOf - s.at), s.b, P))
  end

  family.used = used

  family.rebase = function(s, back)
    back.a = max(s.a, min(s.a + s.b, s.limit.most))
  end

  if settles then
    family.charge = function(s, n)
      n = max(0, min(n, 2 * s.limit.most - used(s)))
      s.a = s.a + n
      return n
    end

    -- The ticket of a taking has the number of its window.
    family.takenAt = function(s, ticket)
      return ticket * s.limit.P
    end

    family.refund = function(s, n, final, ticket)
      local from, P = ticket - s.at, s.limit.P
      if from >= 0 and from < P then
        n = min(n, s.a)
        s.a = s.a - n
      elseif from < 0 and from >= -P then
        n = min(n, s.b)
        s.b = s.b - n
      else
        return 0
      end
      if n > 0 then
        keep(s, s.a == 0 and s.b == 0)
      end
      return n
    end
  end
end
