-- Bans that grow count units in periods as bans do. Bans are in a row if each begins less than the
-- time R after the one before has ended. The first lasts for the time Q, the next twice as long, up
-- to R.
--
--   at   the start of the period
--   a    the end of the last ban of the row, which may be over; 0: no row
--   b    the units in the period, and 67,108,864 for each ban of the row
--
-- If a is above at, the units of the period led to the ban, and are over when it is.

family = {
  decide = function(most, P, Q, asOf, at, a, b, n, _, isRead, R)
    local units = b % 67108864
    local row = (b - units) / 67108864
    if isRead and (b > 4294967295 or (a > 0) ~= (row > 0) or a - at > 63244800000000) then -- 2 years
      return nil
    end
    local fits = a <= asOf
    if fits then
      if a > at or asOf >= at + P then
        units = 0
      end
      if a > 0 and asOf >= a + R then
        a, row = 0, 0
      end
      if units == 0 and (n > 0 or row == 0) then -- a look moves no period while there is a row
        at = asOf
      end
      if n > 0 then
        units = units + n
        if units >= most then
          row = math.min(row + 1, 63)
          a = asOf + math.min(Q * 2 ^ (row - 1), R)
        end
        units = math.min(units, 67108863)
      end
    end
    local fresh = units > 0 and a <= at and at + P or at
    if a > 0 then
      fresh = math.max(fresh, a + R)
    end
    return fits, at, a, units + 67108864 * row, math.max(0, fresh - asOf)
  end,
}

if states then
  family.further = true
  family.kind = 'bans'

  -- parts returns the units in the period, and how many bans the row has.
  local function parts(s)
    local units = s.b % 67108864
    return units, (s.b - units) / 67108864
  end

  family.used = function(s)
    return (parts(s))
  end

  -- A ban that has begun begins again. What is over stays over for as long.
  family.rebase = function(s, back)
    local _, row = parts(s)
    back.b = s.b
    if s.a > s.at then
      back.a = now + min(s.limit.Q * 2 ^ (row - 1), s.limit.R)
    elseif s.a > 0 then
      back.a = max(1, s.a - (s.at - now))
    end
  end

  -- plain returns the numbers of a ban that does not grow. A full count stays full.
  family.plain = function(s)
    local units = parts(s)
    return s.at, s.a > s.asOf and s.a or 0, units == 67108863 and 4294967295 or units
  end

  -- adopt reads those: a ban that has begun is the first of a row.
  family.adopt = function(s)
    s.b = min(s.b, 67108863) + (s.a > 0 and 67108864 or 0)
  end

  if settles then
    -- Charges during a ban are ignored.
    family.charge = function(s, n)
      n = s.a > s.asOf and 0 or max(0, min(n, 2 * s.limit.most - parts(s)))
      if n > 0 then
        local _
        _, s.at, s.a, s.b = step(s, n)
      end
      return n
    end

    -- A ban that is lifted leaves the row. The one before counts as having ended when the period
    -- began. A full count may stand for more units, so nothing is refunded.
    family.refund = function(s, n, final, ticket)
      local units, row = parts(s)
      local over = s.a > s.at and s.a or s.at + s.limit.P
      if ticket < s.at or ticket >= s.at + s.limit.P or now >= over or units == 67108863 then
        return 0
      end
      n = min(n, units)
      units = units - n
      if s.a > s.at and units < s.limit.most then
        row = row - 1
        s.a = row > 0 and s.at or 0
      end
      s.b = units + 67108864 * row
      keep(s, n > 0 and s.b == 0)
      return n
    end
  end
end
