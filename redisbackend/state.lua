-- The states of keys that quick_read.lua leaves to this file: with debts, of other limits, of logs,
-- values and some concurrency limits, and ahead of the clock. settle.lua reads all states here.
--
-- A limit is a text:
--   letter most "/" P ["/" Q ["/" R]]
-- The letter is that of the algorithm, most the maximum. The file of a family says what P and Q are;
-- mostly P is the period. Without Q it is 1 for buckets and queues, otherwise the maximum. Only
-- families with further have an R. P, Q and R may end in k for thousands, or s, m, h or d for as
-- many microseconds: "90s", and "h" for "1h". A limit has one text, with the largest letter that
-- leaves a whole number. In an argument a space and most, P, Q and R follow in full, so that scripts
-- need not read the text; and if a request charges a calendar, "~" and the starts of periods: see
-- calendar.lua.
--
-- A state is a string that starts with its limit:
--   limit " " at " " a [" " b]
-- The file of a family says what the numbers mean; b may be left out if it is 0. sliding_log.lua has
-- a layout of its own; concurrent.lua has no strings. For example "t10/6s 1700000000000000 18000000"
-- is a token bucket of 10 that gets a unit every 6 s, and whose level is 18 s: three units are in use.
--
-- Behind a "+" a state has its serial, 0 for none, and what its family adds. The first charge that
-- lasts gives a state its serial.
--
-- If its limit has changed, a state starts with a change, and goes on as above:
--   "<" at " " units " " ends " " kind ">"
-- units were in use when the limit changed, and count as taken at that instant. Under the former
-- limit they would all have been back at the instant ends. The kind is
--   0   nothing was taken since: a taking drops the change
--   1   the same, and the units are above the new maximum: a taking makes it 2
--   2   something was taken since
-- The next limit starts from the change, so that a limit that comes back finds what it left. From
-- kind 2 it also counts what was taken since. For example 80 of 100 a minute are in use:
--
--   12:00:00  the limit becomes 50 an hour: 50 are in use
--             the change has 80 units that end at 12:01:00, and kind 1
--   12:00:10  the limit becomes 100 a minute again: 80 are in use until 12:01:00
--
-- In memory a state has its key and limit, the numbers of its text, and
--   asOf       the instant to which it was advanced: now, or its latest taking if the clock stepped
--              back since
--   change     the numbers of its change
--   converted  it was stored under a limit that counts differently
--   unwritten  what to write for a changed limit even if nothing is taken; it is as of the latest
--              taking: denied requests must not postpone a state
--   rebased    what to write after it was rebased, even if nothing is taken
--
-- The file of a family sets family, a table with
--   decide    decides n units of a state as of asOf, which is not before at. debt is what the state
--             owes, nil for nothing. more is R, or the periods of a calendar. It returns
--               whether they fit; to take 0 always fits, except during a ban
--               the new at, a and b, with the units if they fit
--               the time from asOf until the state is as good as fresh
--               the new debt
--             A key that has used nothing has the state 0, 0, 0. isRead is true for a state that
--             others may have written: the result is nil if the limit cannot have written it.
-- and where they apply
--   products  it multiplies P by numbers of units: decide needs products.lua if these are large
--   ends      it counts in windows: all units are back when one ends
--   tail      what a reply has behind at, a and b, if the state owes nothing
--   rings     a state with charges that last has a ring: see bucket_ring.lua
--   queues    only the latest taking is refunded, since requests behind have their delays
--   lists     a state is a list of takings or values, whose reply has waits
--   held      requests hold its units: a sorted set, no text
-- and, if states is true, what only this file, convert.lua and settle.lua ask for:
--   further   its limits have an R
--   drains    its numbers are times, in Q-ths
--   calendar  Q says which calendar
--   kind      'bans' or 'values'; nil for rates. States of different kinds have different names, so
--             that they never meet. Limits of such a kind share their states whatever they allow
--   plain     returns at, a and b of an advanced state for another algorithm of the kind, as that
--             whose file has no plain would have written them
--   adopt     changes a state of such numbers to one of its own
--   values    it counts the values of charges
--   waits     returns the waits in a reply, as text
--   encode    returns what stands behind the serial, if anything
--   read      reads that; it returns false if the limit cannot have written it
--   rebase    adds to a fresh state what counts after the clock stepped back
--   used      returns the units in use at asOf, rounded up; without it a is that number
--   note      records what a charge that lasts finds, for a refund later
--   charge    charges n units whether they fit or not, as many as may be owed, and returns them
--   takenAt   returns the instant of a taking, where a ticket has no bits of it
--   refund    returns n units of a taking to a stored state, and writes it; it returns how many,
--             and never credits too many
-- Logs, values and concurrency limits are no texts of three numbers. In place of encode and read
-- they have, where they apply,
--   open      sets a state that has used nothing; of a concurrency limit it reads the stored one
--   decode    sets a state from the first 1,024 bytes of its text. It returns nil if another limit
--             wrote them, and false if the limit cannot have written them
--   advance   brings a stored state forward to asOf
--   begin     sets a state that took n units at asOf; without it take does
--   wait      returns how long n units wait, of a log. It then replies at and a alone, and read.lua
--             makes the waits
--   write     writes a state, with what was taken
-- A calendar has next: the length of the next period, for a reply.

min, max = math.min, math.max

-- unreadable is the error of a key whose state this version cannot have written.
local unreadable = 'WEIR the state of a key is of another version of weir: '
  .. 'run one version on all instances; if it stays, ResetKey deletes it'

-- work estimates how many microseconds this script has worked on logs and held units. From 500 on
-- it leaves what can wait to another script.
local work = 0

-- charged is the digest of the value that is charged, of a limit that counts values.
local charged

-- digits returns n in full.
local function digits(n)
  return format(whole, n)
end

local function copy(s)
  local other = {}
  for name, value in pairs(s) do
    other[name] = value
  end
  return other
end

--- error

-- step returns what decide returns for n more units of a state.
local function step(s, n, asOf)
  local limit = s.limit
  local fits, at, a, b, reset, debt = limit.family.decide(limit.most, limit.P, limit.Q,
    asOf or s.asOf, s.at, s.a, s.b, n, s.debt, false, limit.more)
  if fits == nil then
    error('WEIR asks again at ' .. digits(now)
      .. ': the clock of the client is wrong by a period of the calendar or more', 0)
  end
  return fits, at, a, b, reset, debt
end

-- take takes n units, which fit.
local function take(s, n)
  local _
  _, s.at, s.a, s.b, _, s.debt = step(s, n)
end

-- untilFresh returns the time from now until a state is as good as fresh. The state may be a
-- stored one.
local function untilFresh(s)
  local asOf = s.asOf or max(now, s.at)
  local _, _, _, _, reset = step(s, 0, asOf)
  return reset + asOf - now
end

-- noteTaken updates the change of a state from which units were taken.
noteTaken = function(s)
  local change = s.change
  if change then
    s.change = change.kind ~= 0
      and { at = change.at, units = change.units, ends = change.ends, kind = 2 } or nil
  end
end

local function encodeChange(change)
  if not change then
    return ''
  end
  local numbers = sub(format(wholes, change.at, change.units, change.ends), 2)
  return '<' .. numbers .. format(' %d>', change.kind)
end

-- expiry returns when Redis deletes a state that is fresh after a wait, in milliseconds.
local function expiry(wait)
  return digits(floor((max(0, wait) + 999) / 1000) + grace)
end

-- write writes a state.
write = function(s)
  local owner, wait = s.limit.family, untilFresh(s)
  if s.change then
    wait = max(wait, s.change.ends - now)
  end
  if owner.write then
    owner.write(s, wait)
    if written then
      if written[s.key] then
        writes[written[s.key]], written[s.key] = false, nil
      end
      texts = {} -- later requests read again
    end
    return
  end
  local text, more = encode(s.limit.text, s.at, s.a, s.b), nil
  if owner.encode then
    more = owner.encode(s)
  end
  if more or s.serial then
    text = text .. '+' .. digits(s.serial or 0) .. (more and ' ' .. more or '')
  end
  text = encodeChange(s.change) .. text
  writeText(s.key, text, expiry(wait))
end

local keep, addOwed, subtract
if settles then
  -- keep writes a state after a refund, as of its latest taking: only takings may postpone a state
  -- while it is ahead of the clock. It deletes an empty state, unless the state has a change.
  keep = function(s, empty)
    if empty and not s.change then
      redis.call('DEL', s.key)
    else
      write(s)
    end
  end

  -- addOwed charges n units to a window whose excess goes to the next one, as many as may be owed.
  addOwed = function(s, n)
    local most = s.limit.most
    n = max(0, min(n, 2 * most - s.a))
    s.a = s.a + n
    s.debt = max(0, min(s.a - most, (s.debt or 0) + n))
    return n
  end

  -- subtract returns n units to such a window.
  subtract = function(s, n)
    n = min(n, s.a)
    s.a = s.a - n
    s.debt = s.debt and max(0, min(s.debt, s.a - s.limit.most))
    if n > 0 then
      keep(s, s.a == 0)
    end
    return n
  end
end

-- familyOf returns the family of a letter, with all that state.lua asks for. For another letter it returns nil.
local made = {}
local function familyOf(letter)
  if not made[letter] then
    local family, states = nil, true
    --- families
    made[letter] = family
  end
  return made[letter]
end

local units = {
  [''] = 1, k = 1000, s = 1000000, m = 60000000, h = 3600000000, d = 86400000000,
}

-- amountOf returns the number in a text such as "100", "90s" or "h", and nil for any other text.
local function amountOf(text)
  local n, unit = match(text, '^(%d*)(%a?)$')
  if text ~= '' and units[unit] then
    return units[unit] * (tonumber(n) or 1)
  end
end

-- limitOf returns the limit in a text, nil if the text has none; for a text always the same table.
-- The starts of the periods of a calendar may follow, as in the arguments of take.lua.
local limits = {}
local function limitOf(text)
  if not limits[text] then
    local plain, periods = match(text, '^([^~]*)~?(.*)$')
    local letter, most, P, Q, R = match(plain, '^(%a)(%d+)/(%w+)/?(%w*)/?(%w*)$')
    local owner = letter and familyOf(letter)
    if not owner or (R ~= '') ~= (owner.further or false) then
      return nil
    end
    most, P = tonumber(most), amountOf(P) or 0
    Q = Q == '' and (owner.drains and 1 or most) or amountOf(Q) or 0
    R = R ~= '' and (amountOf(R) or 0) or nil
    if P < 1 or Q < 1 or R == 0 or max(most, P, Q, R or 0) >= 9007199254740992 then
      return nil
    end
    periods = periods ~= '' and periods or nil
    limits[text] = {
      text = plain, family = owner, most = most, P = P, Q = Q, R = R,
      periods = periods, more = periods or R,
    }
  end
  return limits[text]
end

-- fresh returns the state of a key that has used nothing.
local function fresh(key, limit, asOf)
  local s = { key = key, limit = limit, asOf = asOf, at = 0, a = 0, b = 0 }
  if limit.family.open then
    limit.family.open(s)
  else
    take(s, 0)
  end
  return s
end

-- advance brings a stored state forward to now. If the clock stepped back, the state stays at its
-- latest taking, unless all that it took was refunded.
local function advance(s)
  if s.rebased then
    return
  end
  local owner, at = s.limit.family, s.at
  if at > now and s.a == 0 and (s.b == 0 or owner.ends) then
    s.serial, s.ring, s.debt = nil, nil, nil
    for name, value in pairs(fresh(s.key, s.limit, now)) do
      s[name] = value
    end
    return
  end
  s.asOf = max(now, at)
  if owner.advance then
    owner.advance(s)
    return
  end
  take(s, 0)
  if s.a == 0 and s.b == 0 or s.at ~= at and owner.ends then
    s.serial = nil -- what is over gets no refund
  end
end

-- inUse returns how many units of an advanced state are in use.
local function inUse(s)
  local used = s.limit.family.used
  return used and used(s) or s.a
end

-- sameState reports whether two limits share the states of their keys.
local function sameState(limit, other)
  local owner = limit.family
  if owner.kind then
    return owner.kind == other.family.kind
  end
  return owner == other.family and limit.P == other.P and limit.R == other.R
    and (limit.Q == other.Q or not owner.drains and not owner.calendar)
end

-- decode returns the state of a key from its text; more is what stands behind the serial. It returns nil if
-- another limit wrote the text, and false if this limit cannot have written it.
local function decode(key, limit, text, more, change)
  local s, owner = { key = key, limit = limit, change = change }, limit.family
  if owner.decode then
    local fine = owner.decode(s, text)
    return fine and s or fine
  end
  local at, a, b = match(text, '^' .. limit.text .. ' (%d+) (%d+)( ?%d*)$')
  b = b == '' and 0 or tonumber(b)
  if not b then
    return nil
  end
  s.at, s.a, s.b = at + 0, a + 0, b
  return (more == '' or owner.read and owner.read(s, more)) and s.at < 9007199254740992
    and owner.decide(limit.most, limit.P, limit.Q, s.at, s.at, s.a, s.b, 0, s.debt, true,
      limit.more) ~= nil
    and s
end

-- read returns the stored state of a key, under the limit that wrote it. It returns nil if there
-- is none, and false if it cannot be read. It tries the expected limit first. text is the first
-- 1,024 bytes of the state, false if nothing was found, nil if nothing was read.
local function read(key, expected, text)
  if not text then
    if text == false and isSure then
      return nil
    end
    local found = redis.call('GETRANGE', key, '0', '1023')
    if found == '' and (text == false or redis.call('EXISTS', key) == 0) then
      return nil
    end
    text = found
  end
  local change
  if sub(text, 1, 1) == '<' then
    local at, units, ends, kind, length = match(text, '^<(%d+) (%d+) (%d+) ([012])>()')
    if not at or max(at, units, ends) >= 9007199254740992 then
      return false
    end
    text = sub(text, length)
    change = { at = at + 0, units = units + 0, ends = ends + 0, kind = kind + 0 }
    change.length = length - 1
  end
  local serial, more = nil, ''
  local writer = familyOf(sub(text, 1, 1))
  if not (writer and writer.decode) and match(text, '%+') then
    text, serial, more = match(text, '^([^+]*)%+(%d+) ?([%d -]*)$')
    text, serial, more = text or '', tonumber(serial), more or ''
  end
  local s = decode(key, expected, text, more, change)
  if s == nil then
    local name = match(text, '^%a%d+/[%w/]+') or ''
    local limit = limitOf(name)
    if limit and limit.family.kind ~= expected.family.kind then
      return false
    end
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
  if more == '' and serial == 0 then
    return false
  end
  return s.serial ~= 0 and (s.serial or 0) < 131072 and s
end

local converted -- see convert.lua

-- load returns the state of a key under a limit, nil if it cannot be read.
local function load(key, limit, text)
  if limit.family.held then
    return fresh(key, limit, now)
  end
  local s = read(key, limit, text)
  if s == nil then
    return fresh(key, limit, now)
  elseif not s then
    return nil
  elseif s.limit == limit and s.at - now <= 1000000 then
    advance(s)
    return s
  end
  if not converted then
    --- convert
  end
  return converted(key, limit, s)
end
