-- Sliding logs. A log has its takings in order, each with the number of units taken
-- before it. Takings count for a period.
--
--   state    limit " " first " " total ";" takings              eight and sixteen digits
--   state    limit " " first " " total " " serial ";" takings   version 2: six digits more
--   taking   at start                                           sixteen digits each
--
-- first is the index of the oldest taking that counted at the latest one, total the
-- number of units up to the end. A taking whose units were returned has none left. In
-- memory:
--
--   at       the instant of the latest taking
--   start    the units before the first taking
--   counted  the units of the stored takings that count
--   taken    the units of the taking that this script makes

local function slidingLog()
  -- takingAt returns the instant and start of the i-th taking.
  local function takingAt(s, i)
    local text = redis.call('GETRANGE', s.key, s.header + 32 * i, s.header + 32 * i + 31)
    return tonumber(sub(text, 1, 16)), tonumber(sub(text, 17))
  end

  -- search returns the first i in [low, high] for which is(i), high if there is no
  -- other.
  local function search(low, high, is)
    while low < high do
      local middle = floor((low + high) / 2)
      if is(middle) then
        high = middle
      else
        low = middle + 1
      end
    end
    return low
  end

  local function fresh(limit, asOf)
    return { asOf = asOf, at = asOf, counted = 0, taken = 0 }
  end

  local function used(limit, s)
    return s.counted + s.taken
  end

  local function take(limit, s, n)
    s.taken = s.taken + n
    s.at = s.asOf
  end

  local function header(limit, s, first, total)
    if s.serial then
      return format('2%s %08.0f %016.0f %06d;', sub(limit.text, 2), first, total, s.serial)
    end
    return format('%s %08.0f %016.0f;', limit.text, first, total)
  end

  -- dropLatest removes the takings from the i-th on, before which there were so many
  -- units, and those before it that have none left.
  local function dropLatest(limit, s, key, i, total)
    local at, start
    repeat
      i = i - 1
      if i < s.first then
        redis.call('DEL', key)
        return
      end
      at, start = takingAt(s, i)
    until start < total
    local takings = redis.call('GETRANGE', key, s.header + 32 * s.first, s.header + 32 * i + 31)
    put(key, header(limit, s, 0, total) .. takings, max(0, at - now + limit.P))
  end

  -- rewrite sets what is before each of some takings.
  local function rewrite(s, key, from, to, change)
    if from > to then
      return
    end
    local text = redis.call('GETRANGE', key, s.header + 32 * from, s.header + 32 * to + 31)
    local takings = {}
    for j = 1, #text, 32 do
      takings[#takings + 1] = sub(text, j, j + 15)
      takings[#takings + 1] = format('%016.0f', change(tonumber(sub(text, j + 16, j + 31))))
    end
    redis.call('SETRANGE', key, s.header + 32 * from, table.concat(takings))
  end

  return {
    layout = ' (%d+) (%d+) ?(%d*);()',
    fresh = fresh,
    take = take,

    -- decode returns the state in text, which is the start of what key has, nil if
    -- it was written under another limit, false if the limit cannot have written it.
    decode = function(limit, text, key)
      local first, total, serial, header = match(text, limit.pattern)
      if not first then
        return nil
      end
      local s = { key = key, first = tonumber(first), total = tonumber(total), serial = tonumber(serial), header = header - 1, taken = 0 }
      s.version2 = serial ~= ''
      s.count = (redis.call('STRLEN', key) - s.header) / 32
      if s.count ~= floor(s.count) or s.first >= s.count then
        return false
      end
      local _, start = takingAt(s, s.first)
      local last
      s.at, last = takingAt(s, s.count - 1)
      return limit.sound and start and last and max(s.at, s.total) < 9007199254740992
        and start <= last and last < s.total and s.total - start <= 2 * limit.most and s or false
    end,

    -- write drops the takings that no longer count, once they are half of a log.
    write = function(key, limit, s, wait)
      local live = s.counted > 0
      local total = live and s.total or 0
      local latest = format('%016.0f%016.0f', s.asOf, total)
      local first = live and s.first or 0
      if live and s.appendable and s.version2 == (s.serial ~= nil) and (first < 64 or first * 2 < s.count) then
        redis.call('SETRANGE', key, 0, header(limit, s, first, total + s.taken))
        redis.call('APPEND', key, latest)
        redis.call('PEXPIRE', key, expiry(wait))
        return
      end
      local takings = ''
      if live then
        takings = redis.call('GETRANGE', key, s.header + 32 * first, -1)
      end
      redis.call('SET', key, header(limit, s, 0, total + s.taken) .. takings .. latest, 'PX', expiry(wait))
    end,

    advance = function(limit, s)
      if s.asOf - s.at >= limit.P then
        return fresh(limit, s.asOf)
      end
      local at, start = takingAt(s, s.first)
      if s.asOf - at >= limit.P then
        s.first = search(s.first + 1, s.count - 1, function(i)
          return s.asOf - takingAt(s, i) < limit.P
        end)
        at, start = takingAt(s, s.first)
      end
      s.start, s.counted = start, s.total - start
      return s
    end,

    rebase = function(limit, s, back)
      local _, start = takingAt(s, s.first)
      take(limit, back, min(s.total - start, limit.most))
    end,

    remaining = function(limit, s)
      return max(0, limit.most - used(limit, s))
    end,

    fits = function(limit, s, n)
      return n == 0 or used(limit, s) + n <= limit.most
    end,

    untilFits = function(limit, s, n)
      local excess = used(limit, s) + n - limit.most
      if excess > s.counted then
        return limit.P
      end
      local last = search(s.first, s.count - 1, function(i)
        local _, start = takingAt(s, i + 1)
        return start - s.start >= excess
      end)
      return takingAt(s, last) - s.asOf + limit.P
    end,

    untilFresh = function(limit, s)
      return (not s.counted or used(limit, s) > 0) and s.at - now + limit.P or 0
    end,

    mayOwe = function(limit, s)
      return max(0, 2 * limit.most - used(limit, s))
    end,

    -- Takings at one instant count as one. The later takings then have fewer units before
    -- them, or the earlier ones more: what is less to write. Nothing else is read.
    refund = function(limit, s, key, n, final, ticket)
      if final and max(now, s.at) - ticket >= limit.P then
        return 0 -- it has expired
      end
      local i = search(s.first, s.count, function(i) return takingAt(s, i) >= ticket end)
      local at, start = takingAt(s, i)
      if at ~= ticket then
        return 0
      end
      local after = search(i + 1, s.count, function(i) return takingAt(s, i) > ticket end)
      local stop = s.total
      if after < s.count then
        stop = select(2, takingAt(s, after))
      end
      n = min(n, stop - start)
      if n == 0 then
        return 0
      elseif after == s.count and n == stop - start then
        dropLatest(limit, s, key, i, start)
      elseif s.count - i <= after - s.first then
        rewrite(s, key, i + 1, s.count - 1, function(before) return max(before, start + n) - n end)
        redis.call('SETRANGE', key, 0, header(limit, s, s.first, s.total - n))
      else
        rewrite(s, key, s.first, after - 1, function(before)
          return before < start and before + n or max(before, start + n)
        end)
      end
      return n
    end,
  }
end
