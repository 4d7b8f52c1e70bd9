-- Token buckets, leaky buckets and queues. A taking adds to the level, which drains by one unit in
-- P/Q microseconds, a fraction in lowest terms.
--
--   at   the instant of the latest taking
--   a    the level: the time until the bucket is empty, in whole microseconds
--   b    the fraction of another microsecond, in Q-ths
--
-- For example a bucket drains 3 units a second: P/Q is 1000000/3. A taking of one unit from an
-- empty bucket leaves a = 333333 and b = 1, since 1000000/3 = 333333 + 1/3.

family = {
  products = true, rings = letter ~= 'q', queues = letter == 'q',
  decide = function(most, P, Q, asOf, at, a, b, n, _, isRead)
    local full, fullFrac, us, frac = most * P, 0, n * P, 0
    if Q > 1 and timeOf then -- the products may pass 2^53
      full, fullFrac = timeOf(P, Q, most)
      us, frac = timeOf(P, Q, n)
    elseif Q > 1 then
      fullFrac, frac = full % Q, us % Q
      full, us = (full - fullFrac) / Q, (us - frac) / Q
    end
    if isRead and (b >= Q or a > 3155760000000000 -- 100 years
        or a > 2 * full + (2 * fullFrac < Q and 0 or 1)) then
      return nil
    end
    a = a - (asOf - at)
    if a < 0 then
      a, b = 0, 0
    end
    us, frac = a + us, b + frac
    if frac >= Q then
      us, frac = us + 1, frac - Q
    end
    local fits = n == 0 or n <= most and (us < full or us == full and frac <= fullFrac)
    if fits then
      a, b = us, frac
    end
    return fits, asOf, a, b, b > 0 and a + 1 or a
  end,
}

-- A state may have the ring of bucket_ring.lua. A leaky queue has none, since it refunds only its
-- latest taking. A ring is old if another limit made it.
if states then
  -- units returns how many whole units drain in a time.
  local function units(limit, us, frac)
    local periods = floor(us / limit.P)
    local q, r = muldiv(us - periods * limit.P, limit.Q, limit.P)
    return periods * limit.Q + q + floor((r + frac) / limit.P)
  end

  local function minus(limit, us, frac, us2, frac2)
    us, frac = us - us2, frac - frac2
    if frac < 0 then
      return us - 1, frac + limit.Q
    end
    return us, frac
  end

  family.drains = true

  family.encode = function(s)
    return s.ring and encodeRing(s.ring)
  end

  family.read = function(s, text)
    s.ring = decodeRing(text)
    return s.ring
  end

  family.rebase = function(s, back)
    back.a, back.b, back.ring = s.a, s.b, s.ring
  end

  family.used = function(s)
    local whole = units(s.limit, s.a, s.b)
    local us, frac = timeOf(s.limit.P, s.limit.Q, whole)
    return us == s.a and frac == s.b and whole or whole + 1
  end

  if settles then
    family.note = function(s, lasts)
      s.ring = family.rings and noteLevel(s.ring, s.asOf, s.a, s.b, lasts) or nil
    end

    family.charge = function(s, n)
      local limit = s.limit
      local us, frac = timeOf(limit.P, limit.Q, 2 * limit.most)
      if us >= 3155760000000000 then -- 100 years
        us, frac = 3155760000000000, 0
      end
      us, frac = minus(limit, us, frac, s.a, s.b)
      n = us < 0 and 0 or min(n, units(limit, us, frac))
      us, frac = timeOf(limit.P, limit.Q, n)
      us, frac = s.a + us, s.b + frac
      if frac >= limit.Q then
        us, frac = us + 1, frac - limit.Q
      end
      s.a, s.b = us, frac
      return n
    end

    -- Units of the latest taking are worth all that they cost. Units of an earlier one may have
    -- drained since: without a ring, all time since then counts as drained.
    family.refund = function(s, n, final, ticket)
      local limit = s.limit
      local us, frac = timeOf(limit.P, limit.Q, min(n, limit.most))
      local whole = timeOf(limit.P, limit.Q, min(n + (final or 0), limit.most))
      if family.queues then
        local drained = s.at + (s.b > 0 and s.a + 1 or s.a)
        if final and ticket ~= s.at or not final and ticket ~= drained then
          return 0 -- requests behind in the queue already have their delays
        end
      elseif ticket > s.at then
        return 0 -- the clock has stepped back: how much has drained is unknown
      elseif ticket ~= s.at and s.ring then
        local most = worth(s.ring, ticket, whole, frac > 0 and us + 1 or us, s.at)
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
        lower(s.ring, ticket, whole, frac > 0 and us + 1 or us, s.at)
      end
      local returned = units(limit, us, frac)
      keep(s, returned > 0 and s.a == 0 and s.b == 0)
      return returned
    end
  end
end
