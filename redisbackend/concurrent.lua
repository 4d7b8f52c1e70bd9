-- Concurrency limits. A key is a sorted set of the units that are held, under a name of its own. P is
-- the time for which a unit is held unless it is renewed.
--
--   member  12 bytes that identify the unit: the time for which its process holds units, 5 of the
--           process, 6 of a counter
--   score   the instant at which it ends unless it is renewed
--
-- The first byte is four times the binary logarithm of that time in seconds, rounded up. A unit that
-- ends later than so long from now has seen a step back of the clock. It then ends so long from now:
-- its process, if it lives, renews it before.
--
-- The limit is not stored, so a changed one is in force at once. A unit whose time is over does not
-- count. Takings remove such units, since a request that is denied, and one that only looks, write
-- nothing. There may be many, of a process that has died, so a taking removes 500 at most, and corrects
-- as many.
--
-- In memory a state has
--
--   a      the units that count
--   over   those whose time is over
--   held   the same, when it was read
--   firstID the id of the first unit that is taken

take = function(most, _, _, _, at, a, b, n)
  local fits = n == 0 or a + n <= most
  return fits, at, fits and a + n or a, b, 0
end

if family then
  local byte, char = string.byte, string.char

  -- following returns the n-th id after id.
  local function following(id, n)
    local bytes = { byte(id, 7, 12) }
    for i = 6, 1, -1 do
      n = n + bytes[i]
      bytes[i] = n % 256
      n = floor(n / 256)
    end
    return sub(id, 1, 6) .. char(unpack(bytes))
  end

  -- stepBack corrects those of the last n units of a key that end too late, or of the last 500. The
  -- last unit is one of them, unless processes hold units for different times.
  local function stepBack(key, n)
    local function latest(id) -- when a unit ends that is renewed now
      return now + floor(1000000 * 2 ^ ((byte(id) or 0) / 4))
    end
    local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')
    if tonumber(last[2]) <= latest(last[1]) then
      return
    end
    n = min(n, 500)
    work = work + 2 * n
    local ahead = redis.call('ZRANGE', key, -n, -1, 'WITHSCORES')
    for i = 1, #ahead, 2 do
      local most = latest(ahead[i])
      if tonumber(ahead[i + 1]) > most then
        redis.pcall('ZADD', key, digits(most), ahead[i]) -- fails where a request only looks
      end
    end
  end

  -- The commands are quick however many units are held.
  family.open = function(s)
    local key, over = s.key, 0
    local all = redis.call('ZCARD', key)
    if all > 0 then
      local others = all - redis.call('ZCOUNT', key, '(' .. digits(now), digits(now + s.limit.P))
      if others > 0 then
        over = redis.call('ZCOUNT', key, '-inf', digits(now))
        if others > over and work < 500 then
          stepBack(key, others - over)
        end
      end
    end
    s.at, s.a, s.b, s.held, s.over = 0, all - over, 0, all - over, over
  end

  -- write adds the units that were taken before it removes those whose time is over: a server without
  -- memory refuses only the first command that writes.
  family.write = function(s)
    local ends, taken = digits(now + s.limit.P), s.a - s.held
    for i = 0, taken - 1, 500 do
      local arguments = {}
      for j = i, min(i + 500, taken) - 1 do
        arguments[#arguments + 1] = ends
        arguments[#arguments + 1] = following(s.firstID, j)
      end
      redis.call('ZADD', s.key, unpack(arguments))
    end
    redis.call('PEXPIRE', s.key, expiry(s.limit.P))
    if s.over > 0 and work < 500 then
      work = work + min(s.over, 500) / 8
      redis.call('ZREMRANGEBYRANK', s.key, 0, min(s.over, 500) - 1)
    end
  end
end
