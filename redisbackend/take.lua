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
-- Most requests are decided here: they take units, of states of version 1 that were written under the
-- same limits, and the clock has not stepped back. general.lua decides the others.

local keys, argv, isAlone = KEYS, ARGV, ARGV[2] == ''
local nowText = format('%.0f', now)
local reply, length = { argv[1] .. ' ' .. nowText, nil, nil }, 1

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
-- What several requests have changed since is in writes, in this order: name, text and expiry of a key
-- after the other; written has its place there by name.
local writes, last, written
if not isAlone then
  writes, last, written = {}, 0, {}
end

local decideGenerally -- general.lua, once a request needs it
local after -- the argument of ZCOUNT, once a request needs it
local takeOf = {} -- what files of families set, by letter
local place, i = 0, isAlone and 2 or 3 -- of the latest key, and of the next argument
while argv[i] do
  local mode, alike, size = 'take', 1, nil
  if isAlone then
    size = (#argv - 2) / 2
  else
    mode, alike, size = match(argv[i], '^(%a+) (%d+) (%d+)$')
    alike, size = alike + 0, size + 0
  end
  local isPlain, form = mode == 'take', {}
  for j = 1, size do
    local text, units, tail, periods, ids = argv[i + 2 * j - 1], argv[i + 2 * j], '', nil, nil
    local letter, most, P, Q = match(text, '^1(%a) (%d+) (%d+) (%d+)$')
    local n = tonumber(units)
    if not letter then -- a calendar
      text, periods = match(text, '^(.*)~(.*)$')
      letter, most, P, Q = match(text, '^1(%a) (%d+) (%d+) (%d+)$')
      tail = ' 0 0'
    elseif letter == 'f' or letter == 'n' then
      tail = ' 0'
    elseif letter == 'c' then
      ids = match(units, '^1#(.*)$')
      n = ids and 1
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
    isPlain = isPlain and n and n > 0 and letter ~= 'g'
    form[j] = {
      text = text, most = most, P = P, Q = Q, periods = periods, n = n, take = take, tail = tail, ids = ids, at = 0, a = 0, b = 0, reset = 0,
    }
  end

  for request = 1, alike do
    local isKnown, allowed, found = isPlain, true, ''
    for j = 1, isPlain and size or 0 do
      local by, key = form[j], keys[place + j]
      local at, a, b, state = 0, 0, 0, ' 0 0 0'
      if by.ids then
        after = after or format('(%.0f', now)
        a = redis.pcall('ZCARD', key)
        isKnown = a == 0 or redis.pcall('ZCOUNT', key, after, format('%.0f', now + by.P)) == a -- all of them count
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
          local prefix = by.text
          at, a, b = match(text, '^ (%d+) (%d+) (%d+)$', #prefix + 1)
          isKnown = at and at + 0 <= now and sub(text, 1, #prefix) == prefix
          if isKnown then
            state, at, a, b = sub(text, #prefix + 1), at + 0, a + 0, b + 0
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
      local fits
      if isKnown and by.periods then -- clients are told of the period that it is
        fits, at, a, b = by.take(by, now, at, a, b, 0, nil, state ~= ' 0 0 0')
        isKnown = fits ~= nil
        state = isKnown and format(' %.0f %.0f %.0f', at, a, b)
      end
      if not isKnown then
        break
      end
      fits, by.at, by.a, by.b, by.reset = by.take(by, now, at, a, b, by.n, nil, state ~= ' 0 0 0')
      if fits == nil then
        isKnown = false
        break
      end
      allowed = allowed and fits
      found = found .. state .. by.tail
    end

    length = length + 1
    if not isKnown then
      if not decideGenerally then
        --- general
      end
      reply[length] = decideGenerally(i, mode, size, request)
    else
      reply[length] = (allowed and ' 1' or ' 0') .. found
      for j = 1, allowed and size or 0 do
        local by, key = form[j], keys[place + j]
        if by.ids then
          redis.call('ZADD', key, format('%.0f', now + by.P), sub(by.ids, 12 * request - 11, 12 * request))
          redis.call('PEXPIRE', key, format('%.0f', floor((by.P + 999) / 1000) + grace))
        else
          local at, a, b, reset = by.at, by.a, by.b, by.reset
          local small = a < 2147483648 and b < 2147483648 -- 31 bits are enough on every server, and quicker
          local text = format(small and '%s %s %d %d' or '%s %s %.0f %.0f', by.text, at == now and nowText or format('%.0f', at), a, b)
          local expires = format(reset < 1000000000000 and '%d' or '%.0f', floor((reset + 999) / 1000) + grace)
          if isAlone then
            redis.call('SET', key, text, 'PX', expires)
          else
            local k = written[key]
            if not k then
              k, last = last + 2, last + 3
              written[key], writes[k - 1] = k, key
            end
            writes[k], writes[k + 1] = text, expires
          end
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
