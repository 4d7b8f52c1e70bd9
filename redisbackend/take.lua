-- Decides requests one after the other, at one instant. Each takes all that it charges or nothing. All
-- keys are read first, and each that has changed is written once, at the end. A server that refuses to
-- write refuses the first write, so either all requests have taken what they were granted, or the reply
-- is an error and none has. Logs and concurrency limits are read and written as their requests are
-- decided.
--
-- KEYS   the keys of a request, each once, then those of the next
-- ARGV   the number of the call
--        "" if there is one request, which takes and charges no log. Otherwise first "server" for the
--        clock of the server, or the instant in microseconds since the Unix epoch; and for each request
--        its mode, "take" or "peek"; how many follow that are alike but for their keys, it included;
--        and its number of keys. Then for each key
--          its limit, see state.lua
--          the units of its enforced charges, "" if it has none; if it has shadow charges, "," and the
--          units of those; if they last, "@" and for how long: they may be settled; of a concurrency
--          limit "#" and the id of the first unit of each request, see concurrent.lua
-- reply  the number of the call and the instant, and for each request 1 if it is allowed, otherwise 0,
--        and for each of its keys the state that it found under its limit:
--          at, a, b         see the file of its family; of concurrency limits 0, the units held, 0
--          what it owes     of fixed and anchored windows and calendars
--          how long the period after lasts, which starts with that; of calendars
--          of logs instead at, the units in use, and for the enforced charges, and for the shadow charges
--          if there are any, how long the units wait, or one if they fit and nothing is left
--          the serial of the state that it left, 0 if nothing was taken; of charges that last
--        They are numbers, with a space before each but the first. A request that charges a key whose
--        state cannot be read takes nothing, and has in place of all this an error: "!", a text, and
--        the end of a line. Clients tell by the states what remains and for how long to wait.
--
-- Most requests are decided here: their charges do not last, the states are of version 1 and were written
-- under the same limits, and the clock has not stepped back. general.lua decides the others.

local keys, argv, isAlone = KEYS, ARGV, ARGV[2] == ''
local nowText = format(whole, now)

-- What keys have: the starts of texts by their place, if they were read, false for nothing; only, if
-- there is one key. A log may be long, under whatever limit a request charges its key now, so the whole
-- of it is not read. Where there is no string, nothing is found, too: isSure says whether that is so.
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
if isAlone and not argv[5] then
  --- one
end

local reply, length = { argv[1] .. ' ' .. nowText, nil }, 1
-- What several requests have changed since is in writes, in this order: name, text and expiry of a key
-- after the other; written has its place there by name.
local writes, last, written
if not isAlone then
  writes, last, written = {}, 0, {}
end

local decideGenerally -- general.lua, once a request needs it
local after -- the argument of ZCOUNT, once a request needs it
local takeOf = {} -- what files of families set, by letter
local news, expiries = { nil, nil, nil }, { nil, nil, nil } -- what a request writes for its keys, if it is allowed
local place, i = 0, isAlone and 2 or 3 -- of the latest key, and of the next argument
while argv[i] do
  local mode, alike, size = 'take', 1, nil
  if isAlone then
    size = (#argv - 2) / 2
  else
    mode, alike, size = match(argv[i], '^(%a+) (%d+) (%d+)$')
    alike, size = alike + 0, size + 0
  end
  local takes, isPlain, form = mode == 'take', true, { nil, nil, nil }
  for j = 1, size do
    local text, units, tail, periods = argv[i + 2 * j - 1], argv[i + 2 * j], '', nil
    local n, shadow, ids = tonumber(units), nil, nil
    if not n then
      n, shadow = match(units, '^(%d*),(%d+)$')
      ids = match(units, '^1#(.*)$')
    end
    local letter, most, P, Q = match(text, '^1([^g]) (%d+) (%d+) (%d+)$')
    if not letter then
      text, periods = match(text, '^(1k.*)~(.*)$')
      letter, most, P, Q = match(text or '', '^1(k) (%d+) (%d+) (%d+)$')
      tail = ' 0 0'
    elseif letter == 'f' or letter == 'n' then
      tail = ' 0'
    end
    if not letter or not n and not ids then
      isPlain = false
      break
    end
    most, P, Q = most + 0, P + 0, Q + 0
    if not muldiv and (letter == 's' and P * most > 4503599627370000
      or Q > 1 and (letter == 't' or letter == 'l' or letter == 'q')) then
      --- products
    end
    local take = takeOf[letter]
    if not take then
      --- families
      takeOf[letter] = take
    end
    local by = { text = text, most = most, P = P, Q = Q, n = ids and 1 or tonumber(n) or 0, take = take, tail = tail }
    if letter == 'c' then
      by.holds, by.ids = true, ids
    elseif shadow or periods then
      by.shadow, by.isFree, by.periods = tonumber(shadow), n == '', periods
    end
    form[j] = by
  end

  for request = 1, alike do
    local isKnown, allowed, found = isPlain, true, ''
    for j = 1, isPlain and size or 0 do
      local by, key = form[j], keys[place + j]
      local at, a, b, state = 0, 0, 0, ' 0 0 0'
      if by.holds then
        after = after or '(' .. nowText
        a = redis.pcall('ZCARD', key)
        isKnown = a == 0 or redis.pcall('ZCOUNT', key, after, format(whole, now + by.P)) == a -- all of them count
        state = isKnown and format(' 0 %d 0', a)
      else
        local text = written and writes[written[key]]
        if text == nil then
          text = only
          if texts then
            text = texts[place + j]
          end
        end
        if text then
          local length = #by.text
          state, at, a, b = match(text, '^( (%d+) (%d+) (%d+))$', length + 1)
          isKnown = at and at + 0 <= now and sub(text, 1, length) == by.text
          if isKnown then
            at, a, b = at + 0, a + 0, b + 0
          end
        elseif text == nil then
          isKnown = false
        elseif not isSure then
          if isSure == nil then
            local names = {}
            for k = 1, #keys do
              names[#names + 1] = not texts[k] and keys[k] or nil
            end
            isSure = redis.call('EXISTS', unpack(names)) == 0
          end
          isKnown = isSure or redis.pcall('GETRANGE', key, '0', '0') == ''
        end
      end
      if not isKnown then
        break
      end
      local most, P, Q, n, shadow, isRead = by.most, by.P, by.Q, by.n, by.shadow, state ~= ' 0 0 0'
      local fits, more, reset
      if by.periods then -- clients are told of the period that it is
        isKnown, at, a, b = by.take(most, P, Q, now, at, a, b, 0, nil, isRead, by.periods)
        if not isKnown then
          break
        end
        state = format(wholes, at, a, b)
      end
      fits, at, a, b, reset = by.take(most, P, Q, now, at, a, b, n, nil, isRead, by.periods)
      if fits == nil then
        isKnown = false
        break
      end
      allowed = allowed and (fits or by.isFree)
      found = found .. state .. by.tail
      if allowed and takes and not by.holds then
        if shadow then
          more, at, a, b, reset = by.take(most, P, Q, now, at, a, b, shadow)
        end
        news[j] = (n > 0 or more and shadow > 0) and by.text .. format(wholes, at, a, b)
        expiries[j] = format(whole, floor((reset + 999) / 1000) + grace)
      end
    end

    length = length + 1
    if not isKnown then
      if not decideGenerally then
        --- general
      end
      reply[length] = decideGenerally(i, mode, size, request)
    else
      reply[length] = (allowed and ' 1' or ' 0') .. found
      for j = 1, allowed and takes and size or 0 do
        local by, key = form[j], keys[place + j]
        if by.holds then
          redis.call('ZADD', key, format(whole, now + by.P), sub(by.ids, 12 * request - 11, 12 * request))
          redis.call('PEXPIRE', key, format(whole, floor((by.P + 999) / 1000) + grace))
        elseif news[j] and isAlone then
          redis.call('SET', key, news[j], 'PX', expiries[j])
        elseif news[j] then
          local k = written[key]
          if not k then
            k, last = last + 2, last + 3
            written[key], writes[k - 1] = k, key
          end
          writes[k], writes[k + 1] = news[j], expiries[j]
        end
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
