-- Bans count units in periods that each start with the first unit of a key. The charge that
-- reaches the maximum bans the key for the time Q.
--
--   at   the start of the period
--   a    the end of the ban; 0: the key is not banned
--   b    the units in the period

family = {
  decide = function(most, P, Q, asOf, at, a, b, n, _, isRead)
    if isRead and (b > 4294967295 or a > 0 and (a <= at or a - at > 63244800000000)) then -- 2 years
      return nil
    end
    if asOf >= (a > 0 and a or b > 0 and at + P or at) then
      at, a, b = asOf, 0, 0
    end
    local fits = a == 0
    if fits and n > 0 then
      if b == 0 then
        at = asOf
      end
      b = b + n
      if b >= most then
        a = asOf + Q
      end
      if b > 4294967295 then
        b = 4294967295
      end
    end
    return fits, at, a, b, a > 0 and a - asOf or b > 0 and at + P - asOf or 0
  end,
}

if states then
  family.kind = 'bans'

  family.used = function(s)
    return s.b
  end

  family.rebase = function(s, back)
    back.a, back.b = s.a > 0 and now + s.limit.Q or 0, s.b
  end

  if settles then
    -- Charges during a ban are ignored.
    family.charge = function(s, n)
      n = s.a > 0 and 0 or max(0, min(n, 2 * s.limit.most - s.b))
      if n > 0 then
        local _
        _, s.at, s.a, s.b = step(s, n)
      end
      return n
    end

    -- A full count may stand for more units, so nothing is refunded.
    family.refund = function(s, n, final, ticket)
      if ticket < s.at or ticket >= s.at + s.limit.P or s.b == 4294967295 then
        return 0
      end
      n = min(n, s.b)
      s.b = s.b - n
      if s.b < s.limit.most then
        s.a = 0
      end
      keep(s, n > 0 and s.b == 0)
      return n
    end
  end
end
