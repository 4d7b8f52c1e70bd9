-- Quotas by the calendar. Clients know its periods. They send the starts of five: the one before
-- the period that they are in, that one, and three after it. The clock of the server decides
-- between them. A stored period lasts until its end whatever clients send: their data of time
-- zones may differ.
--
--   at   the start of the period
--   a    the units in it
--   b    its length
--
-- A period may owe units to the next one. Its state then has behind its serial the
-- debt and the length of the next period. A debt above the maximum of the next period is forgiven.
--
-- P is the longest period. Other data of a time zone may make one half as long again. Q stands for
-- the calendar: a number made from its text.

family = {
  ends = true, tail = ' 0 0',
  -- decide also returns nil if the instant is in none of the periods.
  decide = function(most, P, _, asOf, at, a, b, n, debt, isRead, periods)
    local stop = at + b
    if isRead and (b < 1 or b > 2 * P or a > (debt and 2000000000 or most)) then
      return nil
    end
    if b == 0 or asOf >= stop then
      local first, before, last
      if periods then
        local starts = {}
        for start in string.gmatch(periods, '%d+') do
          starts[#starts + 1] = start + 0
        end
        for i = 1, #starts < 5 and 2 or 3 do
          if asOf >= starts[i] and asOf < starts[i + 1] then
            before, first, last = starts[i - 1] or starts[i] - 1, starts[i], starts[i + 1]
            if b > 0 and stop > first then -- by other data of the zone
              -- If less than half of this period is left, the rest counts to the next one.
              first, last = stop, last - stop < (last - first) / 2 and starts[i + 2] or last
            end
          end
        end
        if not first then
          return nil
        end
      else -- the request charges another limit
        before, first, last = stop - 1, asOf, asOf + P
      end
      a = debt and (stop > before or stop == first) and (debt < most and debt or most) or 0
      at, b, debt = first, last - first, debt and 0
      stop = last
    end
    local fits = n == 0 or a + n <= most
    if fits then
      a = a + n
    end
    local fresh = stop
    if debt and debt > 0 then -- the next period starts with a debt
      fresh = stop + P -- if the end of the next period is unknown
      for start in string.gmatch(periods or '', '%d+') do
        if start + 0 > stop then
          fresh = start + 0
          break
        end
      end
    end
    return fits, at, a, b, a > 0 and fresh - asOf or 0, debt
  end,
}

if states then
  family.calendar = true

  -- next returns the length of the period after that of a state.
  local function next(s)
    local stop = s.at + s.b
    for start in string.gmatch(s.limit.periods or '', '%d+') do
      if start + 0 > stop then
        return start - stop
      end
    end
    return s.limit.P
  end

  family.next = next

  family.encode = function(s)
    return s.debt and s.debt > 0 and digits(s.debt) .. ' ' .. digits(next(s))
  end

  family.read = function(s, text)
    local debt, next = match(text, '^(%d+) (%d+)$')
    if not debt or next + 0 > 2 * s.limit.P then
      return false
    end
    s.debt = debt + 0
    if not s.limit.periods then
      -- The request charges another limit. The state says which period follows.
      local stop = s.at + s.b
      s.limit = copy(s.limit)
      s.limit.periods = digits(stop) .. ' ' .. digits(stop + next) .. ' 9007199254740991'
      s.limit.more = s.limit.periods
    end
    return s.debt > 0 and s.debt < s.a
  end

  family.rebase = function(s, back)
    back.a, back.debt = s.a, s.debt
  end

  if settles then
    family.charge = function(s, n)
      return addOwed(s, n)
    end

    family.refund = function(s, n, final, ticket)
      local from = ticket - s.at
      if from < 0 or from >= s.b then
        return 0
      end
      return subtract(s, n)
    end
  end
end
