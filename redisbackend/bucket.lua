-- Token buckets, leaky buckets and queues. A taking adds to the level, which drains
-- at the rate of the limit.
--
--   at   the instant of the latest taking
--   a    the level: the time until the bucket is empty, whole microseconds
--   b    the fraction of another microsecond, in Q-ths
--
-- In memory ring is that of bucket_ring.lua, if there is one. A leaky queue has none: it
-- returns nothing by levels. A ring is old if it is of another limit.

local function bucket()
  local function plus(limit, us, frac, us2, frac2)
    us, frac = us + us2, frac + frac2
    if frac >= limit.Q then
      return us + 1, frac - limit.Q
    end
    return us, frac
  end

  local function minus(limit, us, frac, us2, frac2)
    us, frac = us - us2, frac - frac2
    if frac < 0 then
      return us - 1, frac + limit.Q
    end
    return us, frac
  end

  local function untilFresh(limit, s)
    return s.at - now + ceil(s.a, s.b)
  end

  -- units returns how many whole units drain in a time.
  local function units(limit, us, frac)
    local periods = floor(us / limit.P)
    if limit.Q == 1 then
      return periods
    end
    local q, r = muldiv(us - periods * limit.P, limit.Q, limit.P)
    return periods * limit.Q + q + floor((r + frac) / limit.P)
  end

  return {
    drains = true,
    layout = numbersLayout,
    decode = decodeNumbers,

    write = function(key, limit, s, wait)
      writeNumbers(key, limit, s, wait, s.ring and encodeRing(s.ring))
    end,

    more = function(limit, s, text)
      s.ring = decodeRing(text)
      return s.ring
    end,

    untilFresh = untilFresh,

    possible = function(limit, s)
      return s.b < limit.Q and (s.a < limit.owed or s.a == limit.owed and s.b <= limit.owedFrac)
    end,

    fresh = function(limit, asOf)
      return { asOf = asOf, at = asOf, a = 0, b = 0 }
    end,

    advance = function(limit, s)
      s.a = s.a - (s.asOf - s.at)
      if s.a < 0 then
        s.a, s.b, s.serial = 0, 0, nil
      end
      s.at = s.asOf
      return s
    end,

    rebase = function(limit, s, back)
      back.a, back.b, back.ring = s.a, s.b, s.ring
    end,

    remaining = function(limit, s)
      local us, frac = minus(limit, limit.full, limit.fullFrac, s.a, s.b)
      return us < 0 and 0 or units(limit, us, frac)
    end,

    used = function(limit, s)
      local whole = units(limit, s.a, s.b)
      local us, frac = timeOf(limit, whole)
      return us == s.a and frac == s.b and whole or whole + 1
    end,

    fits = function(limit, s, n)
      if n == 0 then
        return true
      elseif n > limit.most then
        return false
      end
      local us, frac = plus(limit, s.a, s.b, timeOf(limit, n))
      return us < limit.full or us == limit.full and frac <= limit.fullFrac
    end,

    take = function(limit, s, n)
      s.a, s.b = plus(limit, s.a, s.b, timeOf(limit, n))
      s.at = s.asOf
    end,

    untilFits = function(limit, s, n)
      local us, frac = plus(limit, s.a, s.b, timeOf(limit, n))
      return ceil(minus(limit, us, frac, limit.full, limit.fullFrac))
    end,

    note = function(limit, s, lasts)
      local ring, width = s.ring, floor((lasts + slices - 1) / slices)
      if limit.algorithm == 'q' or lasts == 0 and (not ring or s.a == 0 and s.b == 0) then
        s.ring = nil
      elseif not ring or ring.old or lasts > 0 and width ~= ring.width or floor(s.asOf / ring.width) < ring.newest then
        s.ring = newRing(s.asOf, lasts > 0 and width or ring.width)
      else
        s.ring = noteLevel(ring, s.asOf, s.a, s.b)
      end
    end,

    mayOwe = function(limit, s)
      local us, frac = minus(limit, limit.owed, limit.owedFrac, s.a, s.b)
      return us < 0 and 0 or units(limit, us, frac)
    end,

    -- Units are worth to their taking what they cost if it is the latest. Otherwise some
    -- of them may have drained: without a ring, what drains in the time since.
    refund = function(limit, s, key, n, final, ticket)
      local us, frac = timeOf(limit, min(n, limit.most))
      local whole = timeOf(limit, min(n + (final or 0), limit.most))
      if limit.algorithm == 'q' then
        if final and ticket ~= s.at or not final and s.at + ceil(s.a, s.b) ~= ticket then
          return 0 -- those who queued behind have delays that count on these units
        end
      elseif ticket > s.at then
        return 0 -- the clock has stepped back since: nobody can tell how much has drained
      elseif ticket ~= s.at and s.ring then
        local most = worth(s.ring, ticket, whole, ceil(us, frac), s.at)
        if most <= us then
          us, frac = most, 0
        end
      elseif us < s.at - ticket then
        return 0
      else
        us = us - (s.at - ticket)
      end
      if us > s.a or us == s.a and frac > s.b then
        us, frac = s.a, s.b
      end
      if us == 0 and frac == 0 then
        return 0
      end
      s.a, s.b = minus(limit, s.a, s.b, us, frac)
      if s.ring and ticket ~= s.at then
        lower(s.ring, ticket, whole, ceil(us, frac), s.at)
      end
      local returned = units(limit, us, frac)
      keep(key, limit, s, returned > 0 and s.a == 0 and s.b == 0)
      return returned
    end,
  }
end
