-- Concurrency limits. A key is a sorted set of the units that are held, under a name of its own. P
-- is the time for which a unit is held unless it is renewed.
--
--   member  12 bytes that identify a unit: 1 for the hold time of its process, 5 random ones
--           of the process, 6 of a counter
--   score   the instant at which the unit ends unless it is renewed
--
-- The first byte is four times the binary logarithm of the hold time in seconds, rounded up: 20
-- for 30 s, since 2^(20/4) = 32. A unit whose end is further away than that has seen the clock
-- step back. Its end is then moved to now plus that time: its process, if it lives, renews it
-- before.
--
-- The limit is not stored, so a changed one is in force at once. A unit past its end does not
-- count. Takings remove such units; denied requests and peeks write nothing. A process that died
-- may leave many, so a taking removes 500 at most, and corrects as many.
--
-- Units may be lent for a time, which is P then: no process renews them, and any may take them
-- back. Their ids begin with 66, or if they have a holder with 67, 7 bytes of its number, and 4 of
-- a counter, which is 0 for its first unit. All units of a holder end at one instant.
--
-- In memory a state has
--
--   a        the units that count
--   over     the units past their ends
--   held     a, when the key was read
--   firstID  the id of the first unit that is taken

family = {
  held = true,
  decide = function(most, _, _, _, at, a, b, n)
    local fits = n == 0 or a + n <= most
    return fits, at, fits and a + n or a, b, 0
  end,
}

if states then
  --- ids

  -- stepBack corrects those of the latest n units, or of the latest 500, whose ends are too far
  -- away. The very latest is one of them, unless processes have different hold times.
  local function stepBack(key, n)
    local function latest(id) -- the end of a unit that is renewed now
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
        redis.pcall('ZADD', key, digits(most), ahead[i]) -- fails in a peek
      end
    end
  end

  -- These commands are quick however many units are held.
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

  -- write adds the taken units before it removes those past their ends. A server without memory
  -- refuses only the first command that writes.
  family.write = function(s)
    local last, taken, over = now + s.limit.P, s.a - s.held, s.over
    local isNamed = byte(s.firstID) == 67
    if isNamed then -- those that the holder has end with these
      local has, ends = unitsOf(s.key, s.firstID)
      over = over - taken -- and more by what is added: ids past their ends are used again
      taken, last = taken + has, math.max(last, ends)
    end
    local ends = digits(last)
    for i = 0, taken - 1, 500 do
      local arguments = {}
      for j = i, min(i + 500, taken) - 1 do
        arguments[#arguments + 1] = ends
        arguments[#arguments + 1] = following(s.firstID, j)
      end
      local added = redis.call('ZADD', s.key, unpack(arguments))
      over = over + (isNamed and added or 0)
    end
    local wait = s.limit.P
    if byte(s.firstID) >= 66 then -- others may have been lent for longer
      wait = tonumber(redis.call('ZRANGE', s.key, -1, -1, 'WITHSCORES')[2]) - now
    end
    redis.call('PEXPIRE', s.key, expiry(wait))
    if over > 0 and work < 500 then
      work = work + min(over, 500) / 8
      redis.call('ZREMRANGEBYRANK', s.key, 0, min(over, 500) - 1)
    end
  end
end
