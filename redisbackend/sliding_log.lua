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

--- more

families.sliding_log = function()
  -- takingAt returns the instant and start of the i-th taking, nothing behind the last.
  local function takingAt(s, i)
    if s.only then
      return i == 0 and s.only or nil, 0
    end
    local text = redis.call('GETRANGE', s.key, s.header + 32 * i, s.header + 32 * i + 31)
    if text ~= '' and not match(text, '^%d+$') then
      error(unreadable, 0)
    end
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

  local function open(s)
    s.at, s.counted, s.taken, s.serial, s.appendable, s.only = s.asOf, 0, 0, nil, nil, nil
  end

  local function header(s, first, total)
    local change = encodeChange(s.change)
    if s.serial then
      return format('%s2%s %08.0f %016.0f %06d;', change, sub(s.limit.text, 2), first, total, s.serial)
    end
    return format('%s%s %08.0f %016.0f;', change, s.limit.text, first, total)
  end

  -- dropLatest removes the takings from the i-th on, before which there were so many
  -- units, and those before it that have none left.
  local function dropLatest(s, i, total)
    local at, start
    repeat
      i = i - 1
      if i < s.first then
        if s.change then
          redis.call('SET', s.key, header(s, 0, 0), 'PX', expiry(s.change.ends - now))
        else
          redis.call('DEL', s.key)
        end
        return
      end
      at, start = takingAt(s, i)
    until start < total
    local takings = redis.call('GETRANGE', s.key, s.header + 32 * s.first, s.header + 32 * i + 31)
    redis.call('SET', s.key, header(s, 0, total) .. takings, 'PX', expiry(max(at + s.limit.P, s.change and s.change.ends or 0) - now))
  end

  -- rewrite sets what is before each of some takings.
  local function rewrite(s, from, to, change)
    if from > to then
      return
    end
    local text = redis.call('GETRANGE', s.key, s.header + 32 * from, s.header + 32 * to + 31)
    local takings = {}
    for j = 1, #text, 32 do
      takings[#takings + 1] = sub(text, j, j + 15)
      takings[#takings + 1] = format('%016.0f', change(tonumber(sub(text, j + 16, j + 31))))
    end
    redis.call('SETRANGE', s.key, s.header + 32 * from, table.concat(takings))
  end

  return {
    open = open,

    begin = function(s, n)
      s.at, s.only, s.first, s.count, s.start, s.total, s.counted, s.taken = s.asOf, s.asOf, 0, 1, 0, n, n, 0
    end,

    -- decode sets s, all but its key and limit, from the start of what its key has. It returns
    -- nil if that was written under another limit, false if the limit cannot have written it.
    decode = function(s, text)
      local first, total, serial, header = match(text, '^' .. s.limit.text .. ' (%d+) (%d+) ?(%d*);()')
      if not first then
        return nil
      end
      s.first, s.total, s.serial, s.taken = tonumber(first), tonumber(total), tonumber(serial), 0
      s.header = header - 1 + (s.change and s.change.length or 0)
      s.count = (redis.call('STRLEN', s.key) - s.header) / 32
      if s.count == 0 and s.change then -- all of its units were returned
        s.at, s.start, s.counted = 0, 0, 0
        return s.total == 0
      elseif s.count ~= floor(s.count) or s.first >= s.count then
        return false
      end
      local _, start = takingAt(s, s.first)
      local last
      s.at, last = takingAt(s, s.count - 1)
      if not start or not last or max(s.at, s.total) >= 9007199254740992
        or start > last or last >= s.total or s.total - start > 2 * s.limit.most then
        return false
      end
      s.start, s.counted = start, s.total - start
      return true
    end,

    advance = function(s)
      local P = s.limit.P
      if s.asOf - s.at >= P then
        open(s)
        return
      end
      local at, start = takingAt(s, s.first)
      if s.asOf - at >= P then
        s.first = search(s.first + 1, s.count - 1, function(i)
          return s.asOf - takingAt(s, i) < P
        end)
        at, start = takingAt(s, s.first)
      end
      s.start, s.counted = start, s.total - start
    end,

    step = function(s, n)
      local limit, used = s.limit, s.counted + s.taken
      local P, most, at, asked = limit.P, limit.most, s.at, n
      local fits = n == 0 or used + n <= most
      if fits then
        used, asked = used + n, 1
        at = n > 0 and s.asOf or at
      end
      local left = max(0, most - used)
      local reset = used > 0 and max(0, at - s.asOf + P) or 0
      if fits and left > 0 then
        return fits, left, reset, ceil(timeOf(limit.P, limit.Q, left))
      end
      local excess = used + asked - most
      if excess > s.counted then
        return fits, left, reset, P
      end
      local last = search(s.first, s.count - 1, function(i)
        local _, start = takingAt(s, i + 1)
        return start - s.start >= excess
      end)
      return fits, left, reset, takingAt(s, last) - s.asOf + P
    end,

    take = function(s, n)
      s.taken = s.taken + n
      s.at = s.asOf
    end,

    -- write drops the takings that no longer count, once they are half of a log.
    write = function(s, wait)
      local key, live = s.key, s.counted > 0
      local total = live and s.total or 0
      local latest = s.taken > 0 and format('%016.0f%016.0f', s.asOf, total) or ''
      local first = live and s.first or 0
      local start = header(s, first, total + s.taken)
      if live and s.appendable and #start == s.header and (first < 64 or first * 2 < s.count) then
        redis.call('SETRANGE', key, 0, start)
        redis.call('APPEND', key, latest)
        redis.call('PEXPIRE', key, expiry(wait))
        return
      end
      local takings = ''
      if s.only then
        takings = format('%016.0f%016.0f', s.only, 0)
      elseif live then
        takings = redis.call('GETRANGE', key, s.header + 32 * first, -1)
      end
      redis.call('SET', key, header(s, 0, total + s.taken) .. takings .. latest, 'PX', expiry(wait))
    end,

    rebase = function(s, back)
      local _, start = takingAt(s, s.first)
      back.taken = min(s.total - start, s.limit.most)
    end,

    owe = function(s, n)
      n = max(0, min(n, 2 * s.limit.most - s.counted - s.taken))
      s.taken = s.taken + n
      s.at = s.asOf
      return n
    end,

    -- Takings at one instant count as one. The later takings then have fewer units before
    -- them, or the earlier ones more: what is less to write. Nothing else is read.
    refund = function(s, n, final, ticket)
      if final and max(now, s.at) - ticket >= s.limit.P then
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
        dropLatest(s, i, start)
      elseif s.count - i <= after - s.first then
        rewrite(s, i + 1, s.count - 1, function(before) return max(before, start + n) - n end)
        redis.call('SETRANGE', s.key, 0, header(s, s.first, s.total - n))
      else
        rewrite(s, s.first, after - 1, function(before)
          return before < start and before + n or max(before, start + n)
        end)
      end
      return n
    end,
  }
end
