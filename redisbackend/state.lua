-- The states of keys for what the first part of take.lua leaves, and for settle.lua: states
-- with serials, debts or rings, of other limits, of logs and concurrency limits, and clocks that
-- have stepped back.
--
-- A limit is a text:
--   "1" algorithm " " most " " P " " Q      1 is the version; see decide.lua
-- and of a calendar that is charged, "~" and the starts of periods, see calendar.lua.
--
-- A state is a string that starts with its limit:
--   state     limit " " at " " a " " b                all but logs and concurrency limits
-- The file of a family says what its numbers mean; sliding_log.lua has a layout of its own. A
-- state with more than these numbers starts with "2", and has behind a ";" its serial, 0 for
-- none, and the rest. It has a serial from the first charge that lasts on. Programs that know
-- version 1 alone report it and leave it alone. A state whose limit has changed starts with
--   "3" at " " units " " ends " " kind "|"
-- and goes on as above: so many units were in use when its limit changed, and count as taken at
-- that instant. The former limit would have given all back when it ends. The kind is 0 or 1 while
-- nothing has been taken since, 1 if they are above the new maximum, and 2 once something has been.
-- Limits that follow start from there, so a limit that comes back finds the same instant; of kind 2
-- they also count what was taken since. A taking drops a change of kind 0.
--
-- In memory a state has its key and limit, the numbers of its text, and
--   asOf      the instant to which it has been advanced: now, or the latest taking if the
--             clock has stepped back since
--   change    the numbers of its start, if its limit has changed
--   converted something lives under the limit that it was stored under
--   unwritten its limit has changed: it is to be written, even if nothing is taken
--   rebased   it was rebased: what to write, even if nothing is taken
--
-- What a family has besides its piece of decide.lua:
--   drains    its numbers are times, in Q-ths
--   ends      it counts in windows: all units are back when one ends, but for those of a sliding one
--   calendar  Q says which windows they are
--   bans      any number of units fits a key that is not banned
--   encode    returns what only version 2 has, if there is any
--   read      reads that; false if nobody can have written it
--   rebase    adds to a fresh state what counts after the clock stepped back
--   used      returns the units in use at asOf, rounded up
--   note      notes what a taking finds, before it takes, for how long it lasts
--   owe       charges n units whether they fit or not, as many as may be owed, and returns them
--   refund    returns n of the units of a taking to a stored state, and writes it; returns how
--             many, as many as cannot credit a unit too many
-- Logs and held units are no numbers. They have take, write and open of their own, which sets a
-- state that has nothing, or reads it; logs have step, too, and begin, which sets a log of one taking.

-- unreadable is the error of a key whose state nobody can have written.
local unreadable = 'WEIR the state of a key was not written by this version of weir: run one version on every instance, or delete the keys'

--- names

local function copy(s)
  local other = {}
  for name, value in pairs(s) do
    other[name] = value
  end
  return other
end

-- limitOf returns the limit in a text, the same one for the same text, nil if there is none.
local limits = {}
local function limitOf(text)
  if not limits[text] then
    local plain, periods = match(text, '^([^~]*)~?(.*)$')
    local algorithm, most, P, Q = match(plain, '^1(%a) (%d+) (%d+) (%d+)$')
    if not nameOf[algorithm] or P + 0 < 1 or Q + 0 < 1 or math.max(most, P, Q) >= 9007199254740992 then
      return nil
    end
    limits[text] = {
      text = plain, algorithm = algorithm, most = most + 0, P = P + 0, Q = Q + 0, periods = periods ~= '' and periods or nil,
    }
  end
  return limits[text]
end

-- decide is the piece of decide.lua, as a function.
local function decide(limit, asOf, at, a, b, n, debt, isRead)
  local algorithm, most, P, Q, periods = limit.algorithm, limit.most, limit.P, limit.Q, limit.periods
  local fits, left, reset, window, extra
  --- decide
  if fits == nil and not isRead then
    error('WEIR asks again at ' .. digits(now) .. ': the clock of the client is wrong by a period of the calendar or more', 0)
  end
  return fits, at, a, b, left, reset, window, extra
end

local made = {}
local function familyOf(limit)
  local name = nameOf[limit.algorithm]
  made[name] = made[name] or families[name]()
  return made[name]
end

-- step returns whether n units fit, and what remains, the wait from now until a state is fresh,
-- and the effective window, once they are taken. If they do not fit it returns what there is, and
-- the wait until they fit; -1 is never. take takes them then.
local function step(s, n)
  local limit, ahead = s.limit, s.asOf - now
  local family = familyOf(limit)
  if n > limit.most and not family.bans then
    local _, left, reset = step(s, 0)
    return false, left, reset, -1
  end
  local fits, left, reset, window
  if family.step then
    fits, left, reset, window = family.step(s, n)
  else
    local at, a, b, extra
    fits, at, a, b, left, reset, window, extra = decide(limit, s.asOf, s.at, s.a, s.b, n, s.debt)
    s.next = { at = at, a = a, b = b, extra = extra }
  end
  local refillsAtOnce = family.ends and limit.algorithm ~= 's' or limit.algorithm == 'c'
  local isWait = not fits or left == 0 or refillsAtOnce or family.bans and reset > 0
  return fits, left, reset + ahead, isWait and window + ahead or window
end

-- noteTaken drops a change from which no limit starts once something is taken.
local function noteTaken(s)
  local change = s.change
  if change then
    s.change = change.kind ~= 0 and { at = change.at, units = change.units, ends = change.ends, kind = 2 } or nil
  end
end

local function take(s, n)
  local limit = s.limit
  local family = familyOf(limit)
  noteTaken(s)
  if family.take then
    family.take(s, n)
    return
  end
  local next = s.next
  s.at, s.a, s.b = next.at, next.a, next.b
  if not family.drains then
    s.debt = next.extra
  end
end

local function encodeChange(change)
  return change and format('3%.0f %.0f %.0f %d|', change.at, change.units, change.ends, change.kind) or ''
end

-- write writes a state that is fresh after a wait.
local function write(s, wait)
  local family = familyOf(s.limit)
  if s.change then
    wait = max(wait, s.change.ends - now)
  end
  if family.write then
    family.write(s, wait)
    if written then
      if written[s.key] then
        writes[written[s.key]], written[s.key] = false, nil
      end
      texts = {} -- the others read again
    end
    return
  end
  local text = s.limit.text .. ' ' .. digits(s.at) .. ' ' .. digits(s.a) .. ' ' .. digits(s.b)
  local more = family.encode(s)
  if more or s.serial then
    text = '2' .. sub(text, 2) .. ';' .. digits(s.serial or 0) .. (more and ' ' .. more or '')
  end
  put(s.key, encodeChange(s.change) .. text, wait)
end

-- untilFresh returns the wait, from now, until a state, which may be a stored one, equals one
-- that has used nothing.
local function untilFresh(s)
  local asOf = s.asOf
  s.asOf = asOf or max(now, s.at)
  local _, _, reset = step(s, 0)
  s.asOf = asOf
  return reset
end

-- keep writes a state from which units were returned, as of its latest taking: only
-- takings keep a state where it is when the clock steps back. An empty one is deleted, unless other
-- limits start from a change of it.
local function keep(s, empty)
  if empty and not s.change then
    redis.call('DEL', s.key)
  else
    write(s, untilFresh(s))
  end
end

-- fresh returns the state of a key that has used nothing.
local function fresh(key, limit, asOf)
  local s, family = { key = key, limit = limit, asOf = asOf }, familyOf(limit)
  if family.open then
    family.open(s)
  else
    local _
    _, s.at, s.a, s.b = decide(limit, asOf, 0, 0, 0, 0)
  end
  return s
end

-- advance brings a stored state forward to now. If the clock has stepped back, the
-- state stays at its latest taking.
local function advance(s)
  if s.rebased then
    return
  end
  local limit, family, at = s.limit, familyOf(s.limit), s.at
  s.asOf = max(now, at)
  if family.advance then
    family.advance(s)
    return
  end
  local _, extra
  _, s.at, s.a, s.b, _, _, _, extra = decide(limit, s.asOf, at, s.a, s.b, 0, s.debt)
  if not family.drains then
    s.debt = extra
  end
  if s.a == 0 and s.b == 0 or s.at ~= at and family.ends and limit.algorithm ~= 's' then
    s.serial = nil -- nothing is returned to what is over
  end
end

-- A serial tells a state from others that its key has had, also at the same instant. It
-- comes from the server's clock: two within 131 ms are never equal. One script may need
-- several.
local serials, latestSerial = 131072, nil
local function newSerial()
  if not latestSerial then
    local time = redis.call('TIME')
    latestSerial = time[1] * 1000000 + time[2]
  end
  latestSerial = latestSerial + 1
  return latestSerial % (serials - 1) + 1
end

-- decode returns the state of a key in a text, and what only version 2 has, nil if it was
-- written under another limit, false if the limit cannot have written it.
local function decode(key, limit, text, more, change)
  local s, family = { key = key, limit = limit, change = change }, familyOf(limit)
  if family.decode then
    local fine = family.decode(s, text)
    return fine and s or fine
  end
  local at, a, b = match(text, '^' .. limit.text .. ' (%d+) (%d+) (%d+)$')
  if not at then
    return nil
  end
  s.at, s.a, s.b = at + 0, a + 0, b + 0
  return (more == '' or family.read(s, more)) and s.at < 9007199254740992
    and decide(limit, s.at, s.at, s.a, s.b, 0, s.debt, true) ~= nil and s
end

-- sameState reports whether a state under one limit is also one under the other.
local function sameState(limit, other)
  return limit.algorithm == other.algorithm
    and (limit.algorithm == 'b' or limit.P == other.P and (limit.Q == other.Q or not familyOf(limit).drains and not familyOf(limit).calendar))
end

-- read returns the stored state of a key, under the limit that it was written under, nil if
-- there is none, false if it cannot be read. Most often the limit is the expected one, which
-- is quick to see. text is its start, false if nothing was found, nil if it has not been read.
local function read(key, expected, text)
  if not text then
    local found = redis.call('GETRANGE', key, '0', '1023')
    if found == '' and (text == false or not redis.call('MGET', key)[1]) then
      return nil
    end
    text = found
  end
  local change
  if sub(text, 1, 1) == '3' then
    local at, units, ends, kind, length = match(text, '^3(%d+) (%d+) (%d+) ([012])|()')
    if not at or max(at, units, ends) >= 9007199254740992 then
      return false
    end
    text = sub(text, length)
    change = { at = at + 0, units = units + 0, ends = ends + 0, kind = kind + 0, length = length - 1 }
  end
  local version2, serial, more = sub(text, 1, 1) == '2', nil, ''
  if version2 and sub(text, 2, 2) == 'g' then
    text = '1' .. sub(text, 2)
  elseif version2 then
    text, serial, more = match(text, '^2([^;]*);(%d+) ?([%d -]*)$')
    text, serial, more = '1' .. (text or ''), tonumber(serial), more or ''
  end
  local s = decode(key, expected, text, more, change)
  if s == nil then
    local name = match(text, '^1%a %d+ %d+ %d+') or ''
    local limit = limitOf(name)
    if limit and expected.periods and sameState(limit, expected) then
      limit = limitOf(name .. '~' .. expected.periods)
    end
    s = limit and decode(key, limit, text, more, change)
  end
  if not s then
    return false
  end
  if serial and serial > 0 then
    s.serial = serial
  end
  if change and change.ends <= now then
    s.change = nil
  end
  if more == '' and version2 ~= (s.serial ~= nil) then
    return false
  end
  return s.serial ~= 0 and (s.serial or 0) < serials and s
end

-- maxStepBack returns the longest step back of a clock during which a state stays at
-- its latest taking.
local function maxStepBack(limit)
  return familyOf(limit).drains and 1000000 or max(1000000, limit.P)
end

-- began returns, as of now, the state of a key that took the units of a change at its instant, as
-- many as the maximum. A change that is far ahead is rebased, like a state.
local function began(key, limit, change)
  local family, n = familyOf(limit), min(change.units, limit.most)
  local at, ends = change.at, change.ends
  if at - now > maxStepBack(limit) then
    at, ends = now, ends - (at - now)
  end
  local s = fresh(key, limit, family.calendar and max(now, at) or at)
  if family.calendar and at < s.at then
    n = 0 -- in a period before
  end
  if n == 0 then
    s = fresh(key, limit, now)
  elseif family.begin then
    family.begin(s, n)
    advance(s)
  else
    step(s, n)
    take(s, n)
    advance(s)
  end
  s.change = { at = at, units = change.units, ends = ends, kind = change.units > limit.most and 1 or 0 }
  return s
end

-- inUse returns how many units of an advanced state are in use.
local function inUse(s)
  local used = familyOf(s.limit).used
  return used and used(s) or s.counted + s.taken
end

-- converted returns an advanced state under a limit that counts otherwise.
local function converted(key, limit, s)
  local used, change = inUse(s), s.change
  local ends = min(now + untilFresh(s), 9007199254740991)
  if not change then
    change = { at = s.asOf, units = used, ends = ends }
  elseif change.kind == 2 then
    local gone = min(change.units, limit.most) - inUse(began(key, limit, change))
    change = { at = s.asOf, units = max(used, change.units - gone), ends = max(change.ends, ends) }
  end
  local new = began(key, limit, change)
  new.converted = used > 0 or s.change ~= nil
  new.unwritten = inUse(new) > 0
  if not new.unwritten then
    change = s.change and new.change
    new = fresh(key, limit, now)
    new.change, new.converted = change, used > 0 or s.change ~= nil
  end
  return new
end

-- isCut reports whether a state of the same counting was converted to a smaller maximum than that
-- of a limit, and its change says that there is more in use.
local function isCut(key, limit, s)
  local change = s.change
  if not change or change.kind == 0 or limit.most <= s.limit.most then
    return false
  end
  local stored = copy(s)
  advance(stored)
  return inUse(began(key, limit, change)) > inUse(stored)
end

-- load returns the state of a key under a limit. It is nil if the state cannot be read. If it
-- is stored under another limit, the two may be the same state; otherwise the units in use are
-- converted.
local function load(key, limit, text)
  if limit.algorithm == 'c' then
    return fresh(key, limit, now)
  end
  local s = read(key, limit, text)
  if s == nil then
    return fresh(key, limit, now)
  elseif not s then
    return nil
  end
  local from, change = s.limit, s.change
  local longest = maxStepBack(from)
  if sameState(limit, from) then
    longest = min(longest, maxStepBack(limit)) -- that of a ban is its period
  end
  local isFarAhead, hasPeriods = s.at - now > longest, not familyOf(from).calendar or from.periods
  if isFarAhead and hasPeriods then
    -- No time is credited: a bucket keeps the level of its latest taking, and the units
    -- that a window or log has then count as taken now.
    local back = fresh(key, from, now)
    familyOf(from).rebase(s, back)
    if change then
      local ahead = max(0, change.at - now)
      change = { at = change.at - ahead, units = change.units, ends = change.ends - ahead, kind = change.kind }
      back.change = change
    end
    back.rebased = copy(back)
    s = back
  elseif isFarAhead and not familyOf(limit).bans then
    -- A calendar whose periods nobody says: its units count as taken now under the other limit.
    local new = began(key, limit, { at = now, units = s.a, ends = now + s.b })
    new.rebased, new.converted = copy(new), true
    return new
  end
  if s.ring then
    s.ring.old = from ~= limit
  end
  if from == limit then
    advance(s)
    return s
  elseif sameState(limit, from) and not isCut(key, limit, s) then
    local wait = untilFresh(s)
    if wait <= 0 then -- Redis may have dropped it
      local new = fresh(key, limit, now)
      new.rebased, new.change = s.rebased, change
      return new
    end
    s.limit = limit
    advance(s)
    local lasts = untilFresh(s)
    s.unwritten = lasts > 0 and lasts ~= wait -- from now on it lasts as long as limit says
    return s
  end
  advance(s)
  local new
  if limit.algorithm == 'b' or from.algorithm == 'b' then -- the units of a ban are not those of a rate
    new = fresh(key, limit, now)
    new.converted = untilFresh(s) > 0 or change ~= nil
  else
    new = converted(key, limit, s)
  end
  new.rebased = s.rebased
  return new
end
