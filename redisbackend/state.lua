-- The states of keys: how they are read and written, and which family of algorithms
-- decides on them. take.lua or settle.lua follows. Nothing here reads KEYS or ARGV.
--
-- A state is a string that starts with its limit:
--   limit     "1" algorithm " " most " " P " " Q      1 is the version
--   state     limit " " at " " a " " b                buckets and windows
-- A unit comes with every P/Q microseconds, in lowest terms for buckets. For windows
-- and logs P is the period, and Q the units of a period; for bans Q is how long one
-- lasts. The file of a family says what its numbers mean; sliding_log.lua has a layout
-- of its own. A state with more than these numbers starts with "2", and has behind a ";"
-- its serial, 0 for none, and the rest. It has a serial from the first charge that lasts
-- on. Programs that know version 1 alone report it and leave it alone.
--
-- In memory a state also has asOf, the instant to which it has been advanced: now, or
-- the latest taking if the clock has stepped back since.
--
-- A family is a table of functions of a limit and a state:
--   layout         the pattern of what follows the limit in a state
--   decode, write  read a state from its text, and write it
--   possible       reports whether a state may have been written: it owes no more than
--                  its limit has, and starts where a window starts. Sets s.more if only
--                  version 2 has such states
--   fresh          returns the state of a key that has used nothing
--   advance        brings a state forward to s.asOf, and returns it or another
--   rebase         adds to a fresh state what counts after the clock stepped back
--   remaining      returns the units that remain
--   fits           reports whether n units fit
--   take           adds n units, which fit
--   untilFits      returns the wait from s.asOf until n units fit that do not fit now
--   untilFresh     returns the wait from now until a state is fresh
--   refund         returns n of the units of a taking to a stored state, and writes it;
--                  returns how many, as many as cannot credit a unit too many
--   mayOwe         returns how many units may be charged beyond what fits
--   refillsAtOnce  all units come at the end of a window
--   drains         its numbers are times, in Q-ths
--   count          returns the state of a key that is a sorted set; there is nothing to
--                  decode, advance, rebase, convert or give back
-- and these, where it has them:
--   used           returns the units in use at s.asOf, rounded up; a stored state is then
--                  also in s after refund
--   more           reads what a state of version 2 has besides; false if nobody wrote it
--   note           notes what a taking finds, before it takes, for how long it lasts
--   owe            notes how many of n units just charged the next window starts with
--   describe       is describe below, and is given reset after
--   bans           any number of units fits a key that is not banned
-- It is made when a script first needs it.

-- unreadable is the error of a key whose state nobody can have written.
local unreadable = 'WEIR the state of a key was not written by this version of weir: run one version on every instance, or delete the keys'

local families = {}
local function familyOf(algorithm)
  local family = families[algorithm]
  if not family then
    if algorithm == 't' or algorithm == 'l' or algorithm == 'q' then -- token bucket, leaky bucket, queue
      family = bucket()
    elseif algorithm == 'f' or algorithm == 's' then -- fixed window, sliding window
      family = window(algorithm == 's')
    elseif algorithm == 'n' then
      family = anchoredWindow()
    elseif algorithm == 'c' then
      family = concurrent()
    elseif algorithm == 'b' then
      family = ban()
    elseif algorithm == 'g' then
      family = slidingLog()
    else
      error('no family decides ' .. algorithm)
    end
    families[algorithm] = family
  end
  return family
end

-- limitOf returns the limit in a text, the same table each time, or nil if there is
-- none.
local limits = {}
local function limitOf(text)
  if limits[text] then
    return limits[text]
  end
  local algorithm, most, P, Q = match(text, '^1([tlqfsngbc]) (%d+) (%d+) (%d+)$')
  if not algorithm then
    return nil
  end
  local family = familyOf(algorithm)
  most, P, Q = tonumber(most), tonumber(P), tonumber(Q)
  local unitTime = floor(P / Q)
  local limit = {
    text = text,
    pattern = '^' .. text .. family.layout,
    algorithm = algorithm,
    family = family,
    most = most,
    P = P,
    Q = Q,
    unitTime = unitTime,
    unitFrac = P - unitTime * Q,
    sound = min(P, Q) > 0 and max(most, P, Q) < 9007199254740992, -- exact, and nothing is divided by zero
  }
  if family.drains and limit.sound then
    limit.full, limit.fullFrac = timeOf(limit, limit.most)
    limit.owed, limit.owedFrac = timeOf(limit, 2 * limit.most)
    if limit.owed >= 3155760000000000 then -- 100 years
      limit.owed, limit.owedFrac = 3155760000000000, 0
    end
  end
  limits[text] = limit
  return limit
end

-- read returns the limit under which a key's state was written and the state, nil if
-- there is none, false if it cannot be read. Most often the limit is the expected one,
-- which is quick to see.
local function read(key, expected)
  local text = redis.call('GETRANGE', key, '0', '127')
  if text == '' then
    return nil
  end
  local version2, serial, more = sub(text, 1, 1) == '2', nil, nil
  if version2 and sub(text, 2, 2) == 'g' then
    text = '1' .. sub(text, 2)
  elseif version2 then
    text, serial, more = match(redis.call('GETRANGE', key, '0', '1023'), '^2([^;]*);(%d+) ?([%d -]*)$')
    text, serial = '1' .. (text or ''), tonumber(serial)
  end
  local limit, s = expected, expected.family.decode(expected, text, key)
  if s == nil then
    limit = limitOf(match(text, '^1%a %d+ %d+ %d+') or '')
    s = limit and limit.family.decode(limit, text, key)
  end
  if s and serial then
    s.serial = serial > 0 and serial or nil
  end
  if s and (s.more or more and more ~= '') then
    s = more and limit.family.more and limit.family.more(limit, s, more) and s
  elseif s and version2 ~= (s.serial ~= nil) then
    s = false
  end
  return s and s.serial ~= 0 and (s.serial or 0) < serials and limit or false, s
end

-- advance brings a stored state forward to now. If the clock has stepped back, the
-- state stays at its latest taking.
local function advance(limit, s)
  if s.rebased then
    return s
  end
  s.asOf = max(now, s.at)
  return limit.family.advance(limit, s)
end

-- maxStepBack returns the longest step back of a clock during which a state stays at
-- its latest taking.
local function maxStepBack(limit)
  return limit.family.drains and 1000000 or max(1000000, limit.P)
end

-- rebased returns a stored state that is more than maxStepBack after now, as it stands
-- once the clock has stepped back to now. No time is credited: a bucket keeps the
-- level of its latest taking, and the units that a window or log has then count as
-- taken now.
local function rebased(limit, s)
  local back = limit.family.fresh(limit, now)
  limit.family.rebase(limit, s, back)
  back.rebased = true
  return back
end

-- sameState reports whether a state under one limit is also one under the other.
local function sameState(limit, other)
  if limit.family.bans then
    return limit.algorithm == other.algorithm
  end
  return limit.algorithm == other.algorithm and limit.P == other.P and (not limit.family.drains or limit.Q == other.Q)
end

-- untilFits returns the least wait, from s.asOf, until n units fit that do not fit
-- now, n <= limit.most. A state that was converted, and not taken from since, is as
-- its former one. One that carries over is gone once it is fresh under its former limit.
local function untilFits(limit, s, n)
  local former = s.former
  if former then
    return untilFits(former.limit, former.s, former.limit.most - (limit.most - n))
  end
  local wait = limit.family.untilFits(limit, s, n)
  return s.gone and min(wait, s.gone - s.asOf) or wait
end

-- untilFresh returns the wait, from now, until s equals a state that used nothing.
local function untilFresh(limit, s)
  local former = s.former
  if former then
    return s.asOf - now + untilFits(former.limit, former.s, former.limit.most)
  end
  local wait = max(0, limit.family.untilFresh(limit, s))
  return s.gone and min(wait, s.gone - now) or wait
end

-- retryAfter returns the wait, from now, until n units fit that do not fit now; -1 for
-- never.
local function retryAfter(limit, s, n)
  if n > limit.most and not limit.family.bans then
    return -1
  end
  return s.asOf - now + untilFits(limit, s, n)
end

-- describe returns what remains, reset after and effective window.
local function describe(limit, s)
  local family, reset = limit.family, untilFresh(limit, s)
  if family.describe then
    return family.describe(limit, s, reset)
  end
  local left = family.remaining(limit, s)
  if family.refillsAtOnce then
    local window = s.asOf - now + family.untilFits(limit, s, 1) -- whatever the former limit
    return left, reset, s.gone and min(window, s.gone - now) or window
  elseif left == 0 then
    return left, reset, s.asOf - now + untilFits(limit, s, 1)
  end
  return left, reset, ceil(timeOf(limit, left))
end

-- write stores s as the state of a key under a limit.
local function write(key, limit, s)
  limit.family.write(key, limit, s, untilFresh(limit, s))
end

-- load returns the account of a key under a limit, from Redis. It is nil if the
-- state cannot be read. An account converts a live state of another limit once something
-- is taken.
local function load(key, limit)
  if limit.family.count then
    return { key = key, limit = limit, s = limit.family.count(key, limit), took = 0 }
  end
  local from, s = read(key, limit)
  if from == nil then
    return { key = key, limit = limit, s = limit.family.fresh(limit, now), took = 0 }
  elseif not from then
    return nil
  end
  local account = { key = key, limit = limit, took = 0 }
  if s.at - now > maxStepBack(from) then
    s = rebased(from, s)
    account.from, account.rebased = from, s
  end
  if s.ring then
    s.ring.old = from ~= limit
  end
  if from == limit or sameState(limit, from) then
    local wait = from ~= limit and from.family.untilFresh(from, s)
    if wait and wait <= 0 then -- Redis may have dropped it
      account.s = limit.family.fresh(limit, now)
      return account
    end
    s.appendable = limit.most == from.most
    account.s = advance(limit, s)
    if wait and wait < limit.family.untilFresh(limit, account.s) then
      account.s.gone = now + wait
    end
    return account
  end
  s = advance(from, s)
  if limit.family.bans or from.family.bans then -- the units of a ban are not those of a rate
    account.s, account.converts = limit.family.fresh(limit, now), untilFresh(from, s) > 0
    return account
  end
  local used = min(from.most - from.family.remaining(from, s), limit.most)
  account.s = limit.family.fresh(limit, s.asOf)
  account.s.ring = s.ring
  if used > 0 then
    limit.family.take(limit, account.s, used)
    account.s.former, account.converts = { limit = from, s = s }, true
  end
  account.ahead = s.asOf - now > maxStepBack(limit) -- once written, whoever reads it rebases it
  return account
end
