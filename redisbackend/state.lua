-- What take.lua and giveback.lua share: it is put in front of each. It reads no
-- KEYS and no ARGV.
--
-- A state is a string that starts with its limit:
--   limit     "1" algorithm " " most " " P " " Q      1 is the version
--   state     limit " " at " " a " " b                buckets and windows
--   state     limit " " first " " total ";" takings   logs: eight and sixteen digits
--   taking    at start                                sixteen digits each
-- algorithm is one of t(oken bucket) l(eaky bucket) q(ueue) f(ixed window)
-- s(liding window) (sliding lo)g a(n)chored window. A unit comes with every P/Q microseconds, in
-- lowest terms for buckets; for windows and logs these are period and units.
--
--             at                         a                   b
--   bucket    instant of last taking     time until empty,   its fraction, in Q-ths
--                                        whole microseconds
--   window    start of the window        units in it         units in the one before,
--                                                            anchored: taken at its start
--
-- A log has its takings in order, each with the number of units taken before it.
-- first is the index of the oldest that counted at the latest taking, total the
-- number of all units.
--
-- Numbers are whole and below 2^53, instants too. So is every intermediate
-- result, and floor(x / y) is then exact: an instant is subtracted from another
-- before a time is added.

local floor, min, max, format, match = math.floor, math.min, math.max, string.format, string.match

-- Set by the script that follows: the instant, and the milliseconds that a state
-- outlives its use, since the clock that expires keys, in milliseconds, may be
-- ahead. An instant that is given, by tests, may stand still for longer.
local now, slack

-- muldiv returns the quotient and remainder of a*m/d, a <= d < 2^45, m < 2^30.
local function muldiv(a, m, d)
  local product = a * m
  if product < 9007199254740992 then
    local q = floor(product / d)
    return q, product - q * d
  end
  local q, r = 0, 0
  for _, power in ipairs({ 268435456, 2097152, 16384, 128, 1 }) do
    local x = r * 128 + a * (floor(m / power) % 128)
    local digit = floor(x / d)
    q, r = q * 128 + digit, x - digit * d
  end
  return q, r
end

-- drain returns the time, us + frac/Q, in which n units drain, n <= t.most.
local function drain(t, n)
  if t.part == 0 then
    return n * t.whole, 0
  end
  local us, frac = muldiv(t.part, n, t.Q)
  return n * t.whole + us, frac
end

local function plus(t, us, frac, us2, frac2)
  us, frac = us + us2, frac + frac2
  if frac >= t.Q then
    return us + 1, frac - t.Q
  end
  return us, frac
end

local function minus(t, us, frac, us2, frac2)
  us, frac = us - us2, frac - frac2
  if frac < 0 then
    return us - 1, frac + t.Q
  end
  return us, frac
end

local function ceil(us, frac)
  if frac > 0 then
    return us + 1
  end
  return us
end

-- terms returns what a limit comes to, the same table each time.
local known = {}
local function terms(limit)
  if known[limit] then
    return known[limit]
  end
  local algorithm, most, P, Q = match(limit, '^1(%a) (%d+) (%d+) (%d+)')
  local t = { limit = limit, algorithm = algorithm, most = tonumber(most), P = tonumber(P), Q = tonumber(Q), pattern = '^' .. limit .. ' (%d+) (%d+) (%d+)$' }
  t.whole = floor(t.P / t.Q)
  t.part = t.P - t.whole * t.Q
  t.bucket = algorithm == 't' or algorithm == 'l' or algorithm == 'q'
  if t.bucket then
    t.full, t.fullFrac = drain(t, t.most)
  end
  known[limit] = t
  return t
end

-- fresh returns the state of a key that has used nothing.
local function fresh(t, held)
  local s = { held = held, at = held, a = 0, b = 0, sum = 0, taken = 0 }
  if t.algorithm == 'f' or t.algorithm == 's' then
    s.at = held - held % t.P
  end
  return s
end

-- taking returns the instant and start of the i-th taking of a log.
local function taking(s, i)
  local text = redis.call('GETRANGE', s.key, s.header + 32 * i, s.header + 32 * i + 31)
  return tonumber(string.sub(text, 1, 16)), tonumber(string.sub(text, 17))
end

-- search returns the first i in [low, high] for which is(i), high if there is
-- no other.
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

-- settle brings a stored state forward to now; a clock that stepped back is held.
local function settle(t, s)
  if s.rebased then
    return s
  end
  s.held = max(now, s.at)
  if t.bucket then
    s.a = s.a - (s.held - s.at)
    if s.a < 0 then
      s.a, s.b = 0, 0
    end
    s.at = s.held
  elseif t.algorithm == 'g' then
    if s.held - s.at >= t.P then
      return fresh(t, s.held)
    end
    local at, start = taking(s, s.first)
    if s.held - at >= t.P then
      s.first = search(s.first + 1, s.count - 1, function(i)
        return s.held - taking(s, i) < t.P
      end)
      at, start = taking(s, s.first)
    end
    s.oldest, s.start, s.sum = at, start, s.total - start
  else
    local e = s.held - s.at
    if e >= t.P then
      s.b = 0
      if e < 2 * t.P and t.algorithm == 's' then
        s.b = s.a
      end
      s.a = 0
      s.at = t.algorithm == 'n' and s.held or s.held - s.held % t.P
    end
  end
  return s
end

local function inUse(t, s)
  if t.algorithm == 'g' then
    return s.sum + s.taken
  elseif t.algorithm == 's' and s.b > 0 then
    return s.a + muldiv(t.P - (s.held - s.at), s.b, t.P)
  end
  return s.a
end

local function remaining(t, s)
  if not t.bucket then
    return max(0, t.most - inUse(t, s))
  end
  local us, frac = minus(t, t.full, t.fullFrac, s.a, s.b)
  if us < 0 then
    return 0
  end
  local periods = floor(us / t.P)
  if t.Q == 1 then
    return periods
  end
  local q, r = muldiv(us - periods * t.P, t.Q, t.P)
  return periods * t.Q + q + floor((r + frac) / t.P)
end

local function fits(t, s, n)
  if n == 0 then
    return true
  elseif n > t.most then
    return false
  elseif not t.bucket then
    return inUse(t, s) + n <= t.most
  end
  local us, frac = drain(t, n)
  us, frac = plus(t, s.a, s.b, us, frac)
  return us < t.full or us == t.full and frac <= t.fullFrac
end

-- take adds n units, which fit, to s.
local function take(t, s, n)
  local former = s.former
  s.former = nil
  if t.bucket then
    local us, frac = drain(t, n)
    s.a, s.b = plus(t, s.a, s.b, us, frac)
    s.at = s.held
  elseif t.algorithm == 'g' then
    s.taken = s.taken + n
    s.at = s.held
  else
    if t.algorithm == 'n' and s.at == s.held then -- what it was converted with came before
      s.b = former and n or s.b + n
    end
    s.a = s.a + n
  end
end

-- hold returns the longest step back of a clock that is held, in microseconds.
local function hold(t)
  return t.bucket and 1000000 or max(1000000, t.P)
end

-- rebased returns a stored state that is more than hold(t) after now, as it stands
-- once the clock has stepped back to now. No time is credited: a bucket keeps the
-- level of its last taking, and the units that a window or log held then count as
-- taken now.
local function rebased(t, s)
  local back = fresh(t, now)
  if t.bucket then
    back.a, back.b = s.a, s.b
  elseif t.algorithm == 'g' then
    local _, start = taking(s, s.first)
    take(t, back, s.total - start)
  else
    take(t, back, min(t.algorithm == 'n' and s.a or s.a + s.b, t.most))
  end
  back.rebased = true
  return back
end

-- fadesTo returns the first time into a window at which c units of the one
-- before weigh no more than m: the least x with floor(c(P-x)/P) <= m.
local function fadesTo(t, c, m)
  if c <= m then
    return 0
  end
  local whole = floor(t.P / c)
  local q, r = muldiv(t.P - whole * c, m + 1, c)
  return t.P - ((m + 1) * whole + ceil(q, r)) + 1
end

-- untilFits returns the least wait, from s.held, until n units fit that do not
-- fit now, n <= t.most.
local function untilFits(t, s, n)
  local former = s.former
  if former then
    return untilFits(former.t, former.s, former.t.most - (t.most - n))
  elseif t.bucket then
    local us, frac = drain(t, n)
    us, frac = plus(t, s.a, s.b, us, frac)
    return ceil(minus(t, us, frac, t.full, t.fullFrac))
  elseif t.algorithm == 'f' or t.algorithm == 'n' then
    return s.at - s.held + t.P
  elseif t.algorithm == 's' then
    local e = s.held - s.at
    if s.a + n <= t.most then
      return fadesTo(t, s.b, t.most - s.a - n) - e
    end
    return t.P - e + fadesTo(t, s.a, t.most - n)
  end
  local excess = inUse(t, s) + n - t.most
  if excess > s.sum then
    return t.P
  end
  local last = search(s.first, s.count - 1, function(i)
    local _, start = taking(s, i + 1)
    return start - s.start >= excess
  end)
  return taking(s, last) - s.held + t.P
end

-- untilFresh returns the wait, from now, until s equals a state that used nothing.
local function untilFresh(t, s)
  local former = s.former
  if former then
    return s.held - now + untilFits(former.t, former.s, former.t.most)
  end
  local wait = s.at - now
  if t.bucket then
    wait = wait + ceil(s.a, s.b)
  elseif t.algorithm == 'g' then
    wait = s.sum + s.taken > 0 and wait + t.P or 0
  elseif s.a > 0 then
    wait = wait + (t.algorithm == 's' and 2 or 1) * t.P
  elseif s.b > 0 then
    wait = wait + t.P
  end
  return max(0, wait)
end

-- describe returns the decision on n units that left s behind: what remains, retry
-- after (0 if allowed, -1 for never), reset after and effective window.
local function describe(t, s, n, allowed)
  local lag, left, reset = s.held - now, remaining(t, s), untilFresh(t, s)
  if not allowed then
    local wait = -1
    if n <= t.most then
      wait = lag + untilFits(t, s, n)
    end
    return left, wait, reset, wait
  elseif t.algorithm == 'f' or t.algorithm == 'n' then
    return left, 0, reset, lag + (s.at - s.held + t.P)
  elseif left == 0 then
    return left, 0, reset, lag + untilFits(t, s, 1)
  end
  return left, 0, reset, ceil(drain(t, left))
end

-- sound reports whether what was read can be counted on: it is exact, and
-- nothing will be divided by zero.
local function sound(t, ...)
  return min(t.P, t.Q) > 0 and max(t.most, t.P, t.Q, ...) < 9007199254740992
end

-- possible reports whether a bucket or window may have been written: with no more in
-- use than its limit has, and at the start of a window.
local function possible(t, s)
  if t.bucket then
    return s.b < t.Q and (s.a < t.full or s.a == t.full and s.b <= t.fullFrac)
  end
  if t.algorithm == 'n' then
    return s.a <= t.most and s.b <= t.most
  end
  return s.at % t.P == 0 and s.a <= t.most and s.b <= (t.algorithm == 's' and 1000000000 or 0)
end

-- read returns the limit under which a key's state was written and the state,
-- nil if there is none, false if it cannot be read. Most often the limit is that of
-- t, which is quick to see.
local function read(key, t)
  local text = redis.call('GETRANGE', key, '0', '127')
  if text == '' then
    return nil
  end
  if t then
    local at, a, b = match(text, t.pattern)
    if at then
      local s = { at = at + 0, a = a + 0, b = b + 0, sum = 0, taken = 0 }
      if s.at < 9007199254740992 and s.a < 9007199254740992 and s.b < 9007199254740992 and possible(t, s) then
        return t, s
      end
      return false
    end
  end
  local limit, at, a, b = match(text, '^(1[tlqfsn] %d+ %d+ %d+) (%d+) (%d+) (%d+)$')
  if limit then
    local t = terms(limit)
    local s = { at = tonumber(at), a = tonumber(a), b = tonumber(b), sum = 0, taken = 0 }
    if not (sound(t, s.at, s.a, s.b) and possible(t, s)) then
      return false
    end
    return t, s
  end
  local first, total, header
  limit, first, total, header = match(text, '^(1g %d+ %d+ %d+) (%d+) (%d+);()')
  if not limit then
    return false
  end
  local t = terms(limit)
  local s = { key = key, first = tonumber(first), total = tonumber(total), header = header - 1, a = 0, b = 0, taken = 0 }
  s.count = (redis.call('STRLEN', key) - s.header) / 32
  if s.count ~= floor(s.count) or s.first >= s.count then
    return false
  end
  local _, before = taking(s, s.first)
  local last
  s.at, last = taking(s, s.count - 1)
  if not (before and last and sound(t, s.at, s.total) and before <= last and last < s.total and s.total - before <= t.most) then
    return false
  end
  return t, s
end

-- digits returns n in full. Several states of one call have the same instants.
local texts = {}
local function digits(n)
  if n < 2147483648 then
    return format('%d', n) -- 31 bits are enough on every server, and quicker
  end
  local text = texts[n]
  if not text then
    text = format('%.0f', n)
    texts[n] = text
  end
  return text
end

-- write stores s as the state of a key under the limit of t.
local function write(key, t, s)
  local ttl = digits(floor((untilFresh(t, s) + 999) / 1000) + slack)
  if t.algorithm ~= 'g' then
    redis.call('SET', key, t.limit .. ' ' .. digits(s.at) .. ' ' .. digits(s.a) .. ' ' .. digits(s.b), 'PX', ttl)
    return
  end
  local live = s.sum > 0
  local total = live and s.total or 0
  local latest = format('%016.0f%016.0f', s.held, total)
  local first, dead = live and s.first or 0, live and s.first or 0
  if live and s.appendable and (dead < 64 or dead * 2 < s.count) then
    redis.call('SETRANGE', key, 0, format('%s %08.0f %016.0f;', t.limit, first, total + s.taken))
    redis.call('APPEND', key, latest)
    redis.call('PEXPIRE', key, ttl)
    return
  end
  local takings = ''
  if live then
    takings = redis.call('GETRANGE', key, s.header + 32 * first, -1)
  end
  redis.call('SET', key, format('%s %08.0f %016.0f;', t.limit, 0, total + s.taken) .. takings .. latest, 'PX', ttl)
end
