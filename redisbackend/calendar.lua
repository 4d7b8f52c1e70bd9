-- Quotas by the calendar. Clients know its periods: they send the starts of the one that they are in, of
-- the one before and of three after. The clock of the server decides between them. What is stored decides until
-- it ends, whatever clients send: they may have other data of time zones.
--
--   at   the start of the period
--   a    the units in it
--   b    how long it lasts
--
-- A period that owes units to the next has a state of version 2, which has their number behind the
-- ";", and how long the next lasts. In memory that is debt. What is more than the next period holds is
-- forgiven. P is the longest that a period lasts, and Q stands for the calendar: it is a number made from its text.

if not isRead or b >= 1 and a <= (debt and 2000000000 or most) then
  if b == 0 or asOf >= at + b then
    local stop, first, before, last = at + b, nil, nil, nil
    if periods then
      local starts = {}
      for start in string.gmatch(periods, '%d+') do
        starts[#starts + 1] = start + 0
      end
      for i = 1, #starts < 5 and 2 or 3 do
        if asOf >= starts[i] and asOf < starts[i + 1] then
          before, first, last = starts[i - 1] or starts[i] - 1, starts[i], starts[i + 1]
          if b > 0 and stop > first then -- by other data of the zone: the rest belongs to one of the two
            first, last = stop, last - stop < (last - first) / 2 and starts[i + 2] or last
          end
        end
      end
    else -- of a limit that the request does not charge
      before, first, last = stop - 1, asOf, asOf + P
    end
    if first then
      a = debt and (stop > before or stop == first) and (debt < most and debt or most) or 0
      at, b, debt = first, last - first, debt and 0
    end
  end

  if asOf < at + b then
    local asked = n
    fits = n == 0 or a + n <= most
    if fits then
      a, asked = a + n, 1
    end
    left = a < most and most - a or 0
    local stop = at + b
    local nextStop = stop
    if debt and debt > 0 then
      nextStop = stop + P -- unless it is known
      for start in string.gmatch(periods or '', '%d+') do
        if start + 0 > stop then
          nextStop = start + 0
          break
        end
      end
    end
    reset = a > 0 and nextStop - asOf or 0
    window = (debt and debt + asked > most and nextStop or stop) - asOf
    extra = debt
  end
end

--- more

families.calendar = function()
  return {
    ends = true,
    calendar = true,

    encode = function(s)
      if not s.debt or s.debt == 0 then
        return false
      end
      local stop = s.at + s.b
      for start in string.gmatch(s.limit.periods or '', '%d+') do
        if start + 0 > stop then
          return digits(s.debt) .. ' ' .. digits(start - stop)
        end
      end
      return digits(s.debt) .. ' ' .. digits(s.limit.P)
    end,

    read = function(s, text)
      local debt, next = match(text, '^(%d+) (%d+)$')
      if not debt then
        return false
      end
      s.debt = debt + 0
      if not s.limit.periods then -- the request charges another limit: what was stored says which periods follow
        local stop = s.at + s.b
        s.limit = copy(s.limit)
        s.limit.periods = digits(stop) .. ' ' .. digits(stop + next) .. ' 9007199254740991'
      end
      return s.debt > 0 and s.debt < s.a
    end,

    used = function(s)
      return s.a
    end,

    rebase = function(s, back)
      back.a = min(s.a, s.limit.most)
    end,

    owe = function(s, n)
      local most = s.limit.most
      n = max(0, min(n, 2 * most - s.a))
      s.a = s.a + n
      s.debt = max(0, min(s.a - most, (s.debt or 0) + n))
      return n
    end,

    refund = function(s, n, final, ticket)
      local from = ticket - s.at
      if from < 0 or from >= s.b then
        return 0
      end
      n = min(n, s.a)
      s.a = s.a - n
      s.debt = s.debt and max(0, min(s.debt, s.a - s.limit.most))
      if n > 0 then
        keep(s, s.a == 0)
      end
      return n
    end,
  }
end
