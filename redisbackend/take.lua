-- Decides requests one after the other, at one instant. A request takes all its enforced charges,
-- and the shadow charges that fit, or nothing. All keys are read first, and texts that have changed
-- are written at the end. A server that refuses to write refuses the first write. So either all
-- allowed requests take their units, or none does. Logs, values and concurrency limits are read and
-- written as their requests are decided. If the clock has stepped back or a limit has changed,
-- the state that was read may be written, even if the request is denied.
--
-- KEYS   the keys of a request, each once, then those of the next
-- ARGV   the number of the call
--        "" for a single request by the server's clock that is no peek and charges no log and no
--        values: it has no head. Otherwise "server" for that clock, or the instant in microseconds
--        since the Unix epoch; and then a head before each group of requests of one form: "take" or
--        "peek", how many requests follow, and how many keys each has: "take 3 2"
--        for each key of a request; the requests of a group share these
--          its limit: see state.lua
--          its units
--            3             enforced ones
--            "3,1"         3 enforced ones and a shadow one; ",1" if there is no enforced charge
--            "3@60000000"  3, and a charge lasts a minute: a settlement may follow
--            "3#" ids      of a concurrency limit: 3, and the id of the first unit of each request,
--                          12 bytes each; weir puts one request in such a group
--            "1#" digest   of a limit that counts values: 1, and the digest of the charged value
-- reply  the number of the call and the instant
--        for each request 1 if it is allowed, otherwise 0, and
--          for each key the state that it found, under its limit:
--            at, a, b             see the file of its family; of concurrency limits 0, the units, 0
--            the debt             of fixed and anchored windows and calendars
--            the length of the next period, of calendars; may be 0 if there is no debt
--            of logs only at, and the units in use; of values at, how many there are, and 1 if the
--            charged value is one of them
--          for each log, and for values, the wait of its enforced charges, and that of its shadow
--          charges if it has any. If charges fit, their wait is the time until one more unit fits
--          for each key with a charge that lasts, the serial of its new state; 0 if nothing was
--          taken
--        All are numbers, with a space before each but the first.
--        A request with a key whose state cannot be read, or advanced to now, takes nothing. In
--        place of its numbers it has an error: "!", a text and the end of a line.
--
-- Clients compute from the states what remains and how long to wait. quick_read.lua reads most
-- states, state.lua the others.
--
-- clock.lua stands before this file, and declares now, grace, whole, format and other locals. A
-- line of three dashes and a name is replaced by a file or another text: see script.go.

local keys, argv, isAlone = KEYS, ARGV, ARGV[2] == ''
local nowText = format(whole, now)

-- The stored texts of the keys.
--
--   only    if isAlone, and there is one key: its whole text. false if the key does not exist, nil
--           if it has another type
--   texts   otherwise: the first 1,024 bytes of each, since a text may be a long log of another
--           limit. false if the key does not exist or has another type, nil if state.lua must read
--           the key again
--   isSure  true: a key whose text is false does not exist. false: it may have another type. nil
--           until a request needs to know
local texts, only, isSure
if not isAlone or keys[2] then
  texts = {}
  for k = 1, #keys do
    local text = redis.pcall('GETRANGE', keys[k], '0', '1023')
    texts[k] = type(text) == 'string' and text ~= '' and text
  end
else
  only, isSure = redis.pcall('GET', keys[1]), true
  if type(only) == 'table' then -- an error
    if not match(only.err, 'WRONGTYPE') then
      return only
    end
    only = nil
  end
end
-- One request with one key. Most are decided in one.lua, which returns; the others go on below.
if isAlone and not keys[2] then
  --- one
end

--- writes
--- quick_read

-- The function take of each family in use, by the letter of the algorithm: t token bucket, l leaky
-- bucket, q leaky queue, f fixed, s sliding and n anchored window, k calendar, b ban, g sliding
-- log, d distinct values, c concurrency.
local takeOf = {}
local stateOf, waitsOf, errorOf, write, noteTaken -- see read.lua and state.lua; often not needed
-- A nil in a new table makes room for an element, so that the table need not grow.
local reply, length = { argv[1] .. ' ' .. nowText, nil }, 1
-- For its j-th key a request writes newTexts[j] with expiries[j]; or newStates[j], by write in
-- state.lua; or newIDs[j], the id of a unit of a concurrency limit. What it does not write
-- is false in these three.
local newTexts, expiries = { nil, nil, nil }, { nil, nil, nil }
local newStates, newIDs = { nil, nil, nil }, { nil, nil, nil }
-- The first key of a request is keys[place + 1]. argv[i] stands before the limits of a group: its
-- head, or the "" of a single request.
local place, i = 0, isAlone and 2 or 3
while argv[i] do
  local mode, alike, size = 'take', 1, nil
  if isAlone then
    size = (#argv - 2) / 2
  else
    mode, alike, size = match(argv[i], '^(%a+) (%d+) (%d+)$')
    alike, size = alike + 0, size + 0
  end
  -- A charge is what each request of the group charges on one of its keys:
  --
  --   n                   enforced units
  --   shadow, lasts, ids  as in ARGV; nil for none, ids may also be ''
  --   periods             the starts of periods of a calendar
  --   isFree              there are only shadow charges, which deny nothing
  --   isList              the limit is a log, or counts values
  --   ends                as family.ends in state.lua: all units come back when a window ends
  --   tail                the rest of the state in the reply, unless state.lua has read the state:
  --                       a debt of 0 for windows that may owe units, and 0 for the next period of
  --                       a calendar
  local takes, charges = mode == 'take', { nil, nil, nil }
  for j = 1, size do
    local text, units, tail, periods = argv[i + 2 * j - 1], argv[i + 2 * j], '', nil
    local letter, most, P, Q = match(text, '^1(%a) (%d+) (%d+) (%d+)$')
    if letter == 'f' or letter == 'n' then
      tail = ' 0'
    elseif not letter then -- a calendar
      text, periods = match(text, '^(.*)~(.*)$')
      letter, most, P, Q = match(text, '^1(%a) (%d+) (%d+) (%d+)$')
      tail = ' 0 0'
    end
    most, P, Q = most + 0, P + 0, Q + 0
    -- For a sliding window, take multiplies P by the units of the previous window. Settlements may
    -- raise these to 2 * most. So the product may pass 2^53 if P * most passes 2^52. Buckets with Q
    -- above 1 multiply fractions.
    if not muldiv and (letter == 's' and P * most > 4503599627370000
      or Q > 1 and (letter == 't' or letter == 'l' or letter == 'q')) then
      --- products
    end
    local take = takeOf[letter]
    if not take then
      --- families
      takeOf[letter] = take
    end
    local charge = {
      text = text, letter = letter, most = most, P = P, Q = Q, take = take, periods = periods,
      n = tonumber(units), isList = letter == 'g' or letter == 'd', ends = tail ~= '', tail = tail,
    }
    if not charge.n then
      local enforced, shadow, lasts, ids = match(units, '^(%d*),?(%d*)@?(%d*)#?(.*)$')
      charge.n, charge.isFree = tonumber(enforced) or 0, enforced == ''
      charge.shadow, charge.lasts, charge.ids = tonumber(shadow), tonumber(lasts), ids
    end
    charges[j] = charge
  end

  for request = 1, alike do
    local allowed, wrong, found, logs, serials, zeros = true, nil, '', nil, '', ''
    for j = 1, size do
      local charge, key = charges[j], keys[place + j]
      local take, letter, most, P, Q = charge.take, charge.letter, charge.most, charge.P, charge.Q
      local n, shadow, lasts, periods = charge.n, charge.shadow, charge.lasts, charge.periods
      local text = written and writes[written[key]] -- or nil: see writes.lua
      if text == nil then
        text = only
        if texts then
          text = texts[place + j]
        end
      end
      local stateText, at, a, b, serial, ring = quickRead(charge, key, text, takes)
      if ring then
        if not decodeRing then
          --- bucket_ring
        end
        ring = decodeRing(ring)
        stateText = ring and stateText
      end

      -- asOf is the instant to which the state is advanced: now, or its latest taking if the clock
      -- stepped back. s is the state if state.lua has read it.
      local asOf, s, debt = now, nil, nil
      -- fits stays nil if state.lua has to read the state. take returns nil, too, if text is given
      -- as isRead and the limit cannot have written it, or if no period of a calendar contains now.
      local fits, newAt, newA, newB, reset, owes
      -- Three things need the state as of now, before n units are added: the reply of a calendar,
      -- the level for a ring, and whether the serial stays. So take first adds 0 units.
      if stateText and (periods or lasts or serial or ring) then
        local before = at
        fits, at, a, b = take(most, P, Q, now, at, a, b, 0, nil, text, periods)
        if fits == nil then
          stateText = nil
        elseif periods then
          stateText = format(wholes, at, a, b)
        end
        if a == 0 and b == 0 or at ~= before and charge.ends then
          serial = nil -- all units are back: nothing is left to refund
        end
      end
      if stateText then
        fits, newAt, newA, newB, reset = take(most, P, Q, now, at, a, b, n, nil, text, periods)
      end
      if fits == nil then
        if not stateOf then
          --- states
        end
        local fine
        fine, s, stateText = pcall(stateOf, key, charge, text, takes)
        if not fine then
          wrong = errorOf(s)
          break
        end
        if charge.isList then
          logs = logs or {}
          -- s.a once more, for waitsOf: s changes if the request takes units.
          logs[#logs + 1] = { s, charge, s.a }
        end
        at, a, b, debt, serial, ring, asOf = s.at, s.a, s.b, s.debt, s.serial, s.ring, s.asOf
        fits, newAt, newA, newB, reset, owes =
          take(most, P, Q, asOf, at, a, b, n, debt, nil, periods)
      end

      allowed = allowed and (fits or charge.isFree)
      found = found .. stateText .. (s and '' or charge.tail)
      -- taken says that the charge takes units. It still takes nothing if a later key denies the
      -- request.
      local taken = allowed and takes and n > 0
      if allowed and takes and shadow and shadow > 0 then
        local shadowFits, at2, a2, b2, reset2, owes2 =
          take(most, P, Q, asOf, newAt, newA, newB, shadow, owes, nil, periods)
        if shadowFits then
          taken, newAt, newA, newB, reset, owes = true, at2, a2, b2, reset2, owes2
        end
      end
      newTexts[j], newStates[j], newIDs[j] = false, false, false
      if taken then
        if lasts or serial or ring then
          if letter == 't' or letter == 'l' then
            if not noteLevel then
              --- bucket_ring
            end
            ring = noteLevel(ring, asOf, a, b, lasts or 0)
          elseif letter == 'q' then
            -- A queue refunds only its latest taking, since later requests already have their
            -- delays. So each taking drops the serial of the one before.
            ring, serial = nil, nil
          end
          if lasts and not serial then
            if not newSerial then
              --- serial
            end
            serial = newSerial()
          end
        end
        local firstID = letter == 'c' and sub(charge.ids, 12 * request - 11, 12 * request)
        if s then
          s.at, s.a, s.b, s.debt, s.serial, s.ring = newAt, newA, newB, owes, serial, ring
          s.firstID, s.isTaken, newStates[j] = firstID, true, s
        elseif firstID then
          newIDs[j] = firstID
        else
          local new = charge.text .. format(wholes, newAt, newA, newB)
          if serial or ring then
            new = '2' .. sub(new, 2) .. ';' .. format(whole, serial or 0)
            new = new .. (ring and ' ' .. encodeRing(ring) or '')
          end
          newTexts[j], expiries[j] = new, format(whole, floor((reset + 999) / 1000) + grace)
        end
      end
      if lasts then
        serials, zeros = serials .. ' ' .. (taken and serial or 0), zeros .. ' 0'
      end
    end

    if logs and not wrong then
      for _, log in ipairs(logs) do
        local fine, waits = pcall(waitsOf, log[1], log[2], log[3], allowed, allowed and takes)
        if not fine then
          wrong = errorOf(waits)
          break
        end
        found = found .. waits
      end
    end
    length = length + 1
    reply[length] = wrong
      or (allowed and ' 1' or ' 0') .. found .. (allowed and takes and serials or zeros)
    for j = 1, allowed and takes and not wrong and size or 0 do
      local key, state, id, text = keys[place + j], newStates[j], newIDs[j], newTexts[j]
      if state then
        noteTaken(state)
        write(state)
      elseif id then
        local P = charges[j].P
        redis.call('ZADD', key, format(whole, now + P), id)
        redis.call('PEXPIRE', key, format(whole, floor((P + 999) / 1000) + grace))
      elseif text then
        writeText(key, text, expiries[j])
      end
    end
    place = place + size
  end
  i = i + 2 * size + 1
end

for k = 1, last or 0, 3 do
  if writes[k + 1] then
    redis.call('SET', writes[k], writes[k + 1], 'PX', writes[k + 2])
  end
end
return table.concat(reply)
