-- Anchored windows. A window starts with the first taking of a key.
--
--   at   the start of the window
--   a    the units in it
--   b    those of them that were taken at its start
--
-- A window that owes units to the next has a state of version 2, which has their number
-- behind the ";". In memory that is debt. The next window then starts at its end.

local function anchoredWindow()
  -- take adds n units. Units that a state was converted with came before its start.
  local function take(limit, s, n, converted)
    if s.at == s.asOf then
      s.b = converted and n or s.b + n
    end
    s.a = s.a + n
  end

  local function untilFresh(limit, s)
    if s.debt and s.debt > 0 then
      return s.at - now + limit.P * windowsUntilFits(limit, s.debt, limit.most)
    end
    return s.at - now + (s.a > 0 and limit.P or 0)
  end

  return {
    refillsAtOnce = true,
    layout = numbersLayout,
    decode = decodeNumbers,

    write = function(key, limit, s, wait)
      writeNumbers(key, limit, s, wait, s.debt and s.debt > 0 and digits(s.debt) or nil)
    end,

    more = function(limit, s, text)
      s.debt = tonumber(text) or 0
      return s.debt > 0 and s.debt <= min(s.a, limit.most)
    end,

    take = take,
    untilFresh = untilFresh,

    possible = function(limit, s)
      s.more = max(s.a, s.b) > limit.most
      return max(s.a, s.b) <= 2 * limit.most
    end,

    fresh = function(limit, asOf)
      return { asOf = asOf, at = asOf, a = 0, b = 0 }
    end,

    advance = function(limit, s)
      local age = s.asOf - s.at
      if age >= limit.P then
        local n, debt = floor(age / limit.P), s.debt or 0
        local owed = owedAfter(limit, debt, n)
        s.at = owed > 0 and s.at + n * limit.P or s.asOf
        s.a, s.b, s.debt = owed, owed, owedAfter(limit, debt, n + 1)
        s.serial = nil -- nothing is returned to a window that is over
      end
      return s
    end,

    rebase = function(limit, s, back)
      take(limit, back, min(s.a, limit.most))
    end,

    remaining = function(limit, s)
      return max(0, limit.most - s.a)
    end,

    used = function(limit, s)
      return s.a
    end,

    fits = function(limit, s, n)
      return n == 0 or s.a + n <= limit.most
    end,

    untilFits = function(limit, s, n)
      return s.at - s.asOf + limit.P * windowsUntilFits(limit, s.debt or 0, n)
    end,

    mayOwe = function(limit, s)
      return max(0, 2 * limit.most - s.a)
    end,

    owe = function(limit, s, n)
      s.debt = max(0, min(s.a - limit.most, (s.debt or 0) + n))
    end,

    -- If a taking that started the window should have cost nothing, the window of others
    -- would have started later. The core refunds nothing then; a give-back does if
    -- others took at the start, too.
    refund = function(limit, s, key, n, final, ticket)
      local from = ticket - s.at
      if from < 0 or from >= limit.P or n > s.a then
        return 0
      elseif from == 0 and s.a > n and (final == 0 or not final and s.b <= n) then
        return 0
      end
      s.a = s.a - n
      s.b = min(s.a, from == 0 and max(0, s.b - n) or s.b)
      s.debt = max(0, min(s.debt or 0, s.a - limit.most))
      keep(key, limit, s, s.a == 0)
      return n
    end,
  }
end
