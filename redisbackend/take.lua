-- Decides requests one after the other, at one instant. A request takes all its enforced charges,
-- and the shadow charges that fit, or nothing.
--
-- Most states are texts. All texts are read first, and those that have changed are written at the
-- end. A server that refuses to write refuses the first write. So either all allowed requests take
-- their units, or none does. Logs, values and concurrency limits are read and written as their
-- requests are decided. If the clock has stepped back or a limit has changed, a state may be
-- written even if its request is denied.
--
-- KEYS   the keys of the first request, each once; then those of the second, and so on
-- ARGV   the number of the call, and the requests in one of two layouts:
--          ""          one request by the server's clock: no peek, no logs, no values
--          charges     of that request
--
--          an instant  in microseconds since the Unix epoch, or "server" for that clock
--          "take 3 2"  the head of a group: three requests of one form follow, with two keys each.
--                      They take units; those of a group "peek 3 2" do not
--          charges     for each of the two keys; the three requests share them
--          ...         other groups
--        A charge on a key is two arguments: a limit and its numbers, as in state.lua, and units:
--          3             enforced ones
--          "3,1"         3 enforced ones and a shadow one; ",1" if there is no enforced charge
--          "3@60000000"  3, and the charge lasts a minute: a settlement may follow
--          "3#" ids      of a concurrency limit: 3, and the id of the first unit of each request,
--                        12 bytes each; weir puts one request in such a group
--          "1#" digest   of a limit that counts values: 1, and the digest of the charged value
-- reply  numbers with a space between: the number of the call, the instant, and for each request
--          1        it is allowed; 0: it is not
--          states   for each key its state as it was found, under the charged limit:
--                     at a b            buckets, queues, sliding windows, bans
--                     at a b debt       fixed and anchored windows
--                     at a b debt next  calendars, as of now. next is the length of the next
--                                       period; it may be 0 if there is no debt
--                     at used           logs: how many units are in use
--                     at used seen      values. seen is 1 if the charged one is among them
--                     0 used 0          concurrency limits
--                   The files of families say what at, a and b are
--          waits    for each log, and for values: how long until the enforced charge fits, and
--                   until the shadow charge does if there is one. For a charge that fits now: until
--                   one more unit would
--          serials  for each key with a charge that lasts: the serial of its new state, 0 if
--                   nothing was taken
--        For example "7 1700000000000000 1 1699999999000000 500000 0" says that in call 7 a request
--        was allowed. A second before, its bucket had needed half a second until it was fresh.
--
--        If a state cannot be read, or advanced to now, its request takes nothing. In place of its
--        numbers the reply has "!", a text and the end of a line.
--
-- Clients compute from the states what remains and how long to wait. quick_read.lua reads most
-- states, state.lua the others.
--
-- clock.lua stands before this file, and declares now, grace, whole, format and other locals. A
-- line of three dashes and a name is replaced by a file or another text: see scripts.go.

local keys, argv, isAlone = KEYS, ARGV, ARGV[2] == ''

-- The texts of the keys. false: the key has no text, since it does not exist or has another type.
-- true: it is of a concurrency limit, which keeps no text. nil: state.lua has to read the key. A text
-- of 1,024 bytes may be cut; quick_read.lua reads none from 512 bytes on.
local texts
-- true: no key whose text is false exists. false: one does. nil: not asked yet.
local isSure
local limit, family, letter, most, P, Q -- of a charge that is the only one of the call
if isAlone and not keys[2] then
  limit, letter, most, P, Q = match(argv[3], '^((%a)%S+) (%d+) (%d+) (%d+)$')
  if letter then
    --- families
  else -- the limit says more, and charge.lua reads it
    limit = argv[3]
  end
  if family and family.held then
    texts = { true }
  else
    local only = redis.pcall('GET', keys[1])
    if type(only) == 'table' then -- an error
      if not match(only.err, 'WRONGTYPE') then
        return only
      end
      only = nil -- of another type
    end
    --- one
    texts = { only }
  end
  isSure = true
end

--- charge
local charges = { nil, nil, nil } -- of all groups
if limit then
  charges[1] = readCharge(limit, argv[4], letter, most, P, Q)
else
  texts = {}
  local count, place, i, alike, size = 0, 0, isAlone and 2 or 3, 1, #keys
  while argv[i] do -- the layout is that of the loop below
    if not isAlone then
      alike, size = match(argv[i], ' (%d+) (%d+)$')
      size = size + 0
    end
    for j = 1, size do
      local charge = readCharge(argv[i + 2 * j - 1], argv[i + 2 * j])
      count = count + 1
      charges[count] = charge
      local isHeld = charge.family.held
      for k = place + j, place + alike * size, size do
        if isHeld then
          texts[k] = true
        else
          local text = redis.pcall('GETRANGE', keys[k], '0', '1023')
          texts[k] = type(text) == 'string' and text ~= '' and text
        end
      end
    end
    place, i = place + alike * size, i + 2 * size + 1
  end
end

--- writes
--- quick_read

local stateOf, waitsOf, errorOf, write, noteTaken -- see read.lua and state.lua; often not needed
-- Each nil in a new table makes room for an element, so that the table need not grow.
local reply, length = { argv[1] .. ' ' .. nowText, nil }, 1
-- For its j-th key a request writes newTexts[j] with expiries[j]; or newStates[j], by write in
-- state.lua; or newIDs[j], the id of a unit of a concurrency limit. The others of newTexts[j],
-- newStates[j] and newIDs[j] are false.
local newTexts, expiries = { nil, nil, nil }, { nil, nil, nil }
local newStates, newIDs = { nil, nil, nil }, { nil, nil, nil }
-- The first key of a request is keys[place + 1], its first charge is charges[first + 1]. argv[i] is
-- the head of a group, or the "" of a single request.
local place, first, i = 0, 0, isAlone and 2 or 3
while argv[i] do
  local mode, alike, size = 'take', 1, nil
  if isAlone then
    size = (#argv - 2) / 2
  else
    mode, alike, size = match(argv[i], '^(%a+) (%d+) (%d+)$')
    alike, size = alike + 0, size + 0
  end
  local takes = mode == 'take'
  for request = 1, alike do
    local allowed, wrong, found, logs = true, nil, '', nil
    local serials, zeros = '', '' -- the end of the reply if units are taken, and if none are
    for j = 1, size do
      local charge, key, text = charges[first + j], keys[place + j], texts[place + j]
      local family, most, P, Q = charge.family, charge.most, charge.P, charge.Q
      local n, shadow, lasts, periods = charge.n, charge.shadow, charge.lasts, charge.periods
      local decide, more = family.decide, charge.more

      -- 1. Read the state, and add the enforced units. fits stays nil if state.lua has to do it.
      local changed = written and written[key] -- by a request before: see writes.lua
      if changed then
        text = writes[changed]
      end
      local stateText, at, a, b, serial, ring = quickRead(charge, key, text, takes)
      -- asOf is the instant to which the state is advanced: now, or its latest taking if the clock
      -- stepped back. s is the state if state.lua has read it.
      local asOf, s, debt = now, nil, nil
      -- decide checks a text that was read. It returns nil if the limit cannot have written it, and
      -- if no period of a calendar contains now.
      local isRead = text and true
      local fits, newAt, newA, newB, reset, owes
      if stateText and (periods or lasts or serial or ring) then
        -- Advance to now without units: a calendar replies that state, and a ring notes its level.
        local before = at
        fits, at, a, b = decide(most, P, Q, now, at, a, b, 0, nil, isRead, more)
        if fits == nil then
          stateText = nil
        elseif periods then
          stateText = format(wholes, at, a, b)
        end
        local isEmpty = a == 0 and b == 0
        local isOver = family.ends and at ~= before -- the window of the stored state
        if isEmpty or isOver then -- nothing is left to refund
          serial = nil
        end
      end
      if stateText then
        fits, newAt, newA, newB, reset = decide(most, P, Q, now, at, a, b, n, nil, isRead, more)
      end
      if fits == nil then
        if not stateOf then
          --- states
        end
        local fine
        fine, s, stateText = pcall(stateOf, key, charge, text, takes)
        if not fine then
          wrong = errorOf(s) -- s is the error
          break
        end
        if family.lists then
          logs = logs or {}
          -- s.a once more, for waitsOf: s changes if the request takes units.
          logs[#logs + 1] = { s, charge, s.a }
        end
        at, a, b, debt, serial, ring, asOf = s.at, s.a, s.b, s.debt, s.serial, s.ring, s.asOf
        fits, newAt, newA, newB, reset, owes =
          decide(most, P, Q, asOf, at, a, b, n, debt, nil, more)
      end

      -- 2. Decide, and add the shadow units if they fit, too.
      allowed = allowed and (fits or charge.isFree)
      found = found .. stateText .. (not s and family.tail or '') -- state.lua's is complete
      local wouldTake = allowed and takes and n > 0 -- unless a later key denies the request
      if allowed and takes and shadow and shadow > 0 then
        local shadowFits, at2, a2, b2, reset2, owes2 =
          decide(most, P, Q, asOf, newAt, newA, newB, shadow, owes, nil, more)
        if shadowFits then
          wouldTake, newAt, newA, newB, reset, owes = true, at2, a2, b2, reset2, owes2
        end
      end

      -- 3. Make what to write.
      newTexts[j], newStates[j], newIDs[j] = false, false, false
      if wouldTake then
        if lasts or serial or ring then
          if family.rings then
            if not noteLevel then
              --- bucket_ring
            end
            ring = noteLevel(ring, asOf, a, b, lasts or 0)
          elseif family.queues then
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
        -- The id of the first unit of this request.
        local firstID = family.held and sub(charge.ids, 12 * request - 11, 12 * request)
        if s then
          s.at, s.a, s.b, s.debt, s.serial, s.ring = newAt, newA, newB, owes, serial, ring
          s.firstID, s.isTaken, newStates[j] = firstID, true, s
        elseif firstID then
          newIDs[j] = firstID
        else
          local new = encode(charge.text, newAt, newA, newB)
          if serial or ring then
            new = new .. '+' .. format(whole, serial or 0)
            new = new .. (ring and ' ' .. encodeRing(ring) or '')
          end
          newTexts[j], expiries[j] = new, format(whole, floor((reset + 999) / 1000) + grace)
        end
      end
      if lasts then
        serials, zeros = serials .. ' ' .. (wouldTake and serial or 0), zeros .. ' 0'
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
    if allowed and takes and not wrong then
      for j = 1, size do
        local key, state, id, text = keys[place + j], newStates[j], newIDs[j], newTexts[j]
        if state then
          noteTaken(state)
          write(state)
        elseif id then
          local P = charges[first + j].P
          redis.call('ZADD', key, format(whole, now + P), id)
          redis.call('PEXPIRE', key, format(whole, floor((P + 999) / 1000) + grace))
        elseif text then
          writeText(key, text, expiries[j])
        end
      end
    end
    place = place + size
  end
  first, i = first + size, i + 2 * size + 1
end

for k = 1, last or 0, 3 do
  if writes[k + 1] then
    redis.call('SET', writes[k], writes[k + 1], 'PX', writes[k + 2])
  end
end
return table.concat(reply)
