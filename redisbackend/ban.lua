-- Bans count units in periods that each start with a key's first unit. The charge that
-- reaches the number bans the key.
--
--   at   the start of the period
--   a    the instant at which the ban ends; 0: there is none
--   b    the units in the period

local function ban()
  local function freshAt(limit, s)
    if s.a > 0 then
      return s.a
    elseif s.b > 0 then
      return s.at + limit.P
    end
    return s.at
  end

  local function remaining(limit, s)
    return s.a > 0 and 0 or max(0, limit.most - s.b)
  end

  return {
    bans = true,
    layout = numbersLayout,
    decode = decodeNumbers,
    write = writeNumbers,
    remaining = remaining,

    possible = function(limit, s)
      return s.b <= 4294967295 and (s.a == 0 or s.a > s.at)
    end,

    fresh = function(limit, asOf)
      return { asOf = asOf, at = asOf, a = 0, b = 0 }
    end,

    advance = function(limit, s)
      if s.asOf >= freshAt(limit, s) then
        s.at, s.a, s.b, s.serial = s.asOf, 0, 0, nil
      end
      return s
    end,

    rebase = function(limit, s, back)
      back.a, back.b = s.a > 0 and now + limit.Q or 0, s.b
    end,

    used = function(limit, s)
      return s.b
    end,

    fits = function(limit, s, n)
      return s.a == 0
    end,

    take = function(limit, s, n)
      if s.b == 0 then
        s.at = s.asOf
      end
      if s.b + n >= limit.most then
        s.a = s.asOf + limit.Q
      end
      s.b = min(s.b + n, 4294967295)
    end,

    untilFresh = function(limit, s)
      return freshAt(limit, s) - now
    end,

    untilFits = function(limit, s, n)
      return freshAt(limit, s) - s.asOf
    end,

    describe = function(limit, s, reset)
      return remaining(limit, s), reset, s.b > 0 and reset or limit.P
    end,

    -- What is charged during a ban is ignored.
    mayOwe = function(limit, s)
      return s.a > 0 and 0 or max(0, 2 * limit.most - s.b)
    end,

    -- Of a count that is as large as there are nobody knows how much of it there would be,
    -- but who gives back, and says what there was before.
    refund = function(limit, s, key, n, final, ticket)
      if ticket < s.at or ticket >= s.at + limit.P or final and s.b == 4294967295 then
        return 0
      end
      n = min(n, s.b)
      s.b = s.b - n
      if s.b < limit.most then
        s.a = 0
      end
      keep(key, limit, s, n > 0 and s.b == 0)
      return n
    end,
  }
end
