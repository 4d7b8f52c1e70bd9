-- Decides requests one after the other, at one instant. Each takes all that it
-- charges or nothing. All keys are read first, and each that has changed is written once, at the
-- end. A server that refuses to write refuses the first write, so either all requests have
-- taken what they were granted, or the reply is an error and none has. Logs and concurrency
-- limits are read and written as their requests are decided.
--
-- KEYS   the keys of a request, each once, then those of the next
-- ARGV   the number of the call
--        "1" if there is one request, which takes and charges no log. Otherwise first "server" for the
--        clock of the server, or the instant in microseconds since the Unix epoch; and for each request its mode,
--        "take" or "peek"; how many follow that are alike but for their keys, it included; and its
--        number of keys. Then for each key
--          its limit, see state.lua
--          the units of its enforced charges, "" if it has none; if it has shadow charges, ","
--          and the units of those; if they last, "@" and for how long: they may be settled; of
--          a concurrency limit "#" and the id of the first unit of each request, see
--          concurrent.lua
-- reply  the number of the call, the instant, and for each key of each request these numbers for its
--        enforced charges and, if it has any, for its shadow charges:
--          remaining
--          reset after
--          effective window if allowed, otherwise minus retry after, which is the
--          effective window too; -9007199254740991 is never
--          delay, of queues only
--          of charges that last only: the instant of the taking, of sliding windows
--          the number of its window, and the serial of the state that it left; both
--          are 0 if nothing was taken
--        A request that charges a key whose state cannot be read has an error in place of
--        all this, and takes nothing. Times are microseconds.
--
-- Most requests are decided here: they take units, of states of version 1 that were written
-- under the same limits, and the clock has not stepped back. general.lua decides the others.

local keys, argv = KEYS, ARGV
local reply, length = { argv[1] + 0, now, nil, nil, nil }, 2 -- of its final size for one key

-- What keys have: the starts of texts by their place, if they were read, false for nothing; only, if there
-- is one key. A log may be long, under whatever limit a request charges its key now, so the whole of it is
-- not read. Where there is no string, nothing is found, too: isSure says whether that is so.
local isAlone = not given
local texts, only, isSure
if given or keys[2] then
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
-- What several requests have changed since is in writes, in this order: name, text and expiry of a
-- key after the other; written has its place there by name.
local writes, last, written
if not isAlone then
  writes, last, written = {}, 0, {}
end
local place, i = 0, isAlone and 2 or 3 -- of the latest key, and of the next argument

local decideGenerally -- general.lua, once a request needs it
local after, latestAt, latestAtText
-- By 16 for each key of a request: its limit, in 1 to 5; the units, in 6; in 7 the ids of those of a
-- concurrency limit, or the starts of periods of a calendar; its state, in 8 to 10; and once it is decided whether the units fit, in
-- 11, the state that it gets, in 12 to 14, and the time until that is fresh, in 15.
local of = { nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil }
while argv[i] do
  local mode, alike, size = 'take', 1, nil
  if isAlone then
    size = (#argv - 2) / 2
  else
    mode, alike, size = match(argv[i], '^(%a+) (%d+) (%d+)$')
    alike, size = alike + 0, size + 0
  end
  local isOrdinary = mode == 'take'
  for j = 1, size do
    local text, units, x = argv[i + 2 * j - 1], argv[i + 2 * j], 16 * (j - 1)
    local algorithm, most, P, Q = match(text, '^1(%a) (%d+) (%d+) (%d+)$')
    local n = tonumber(units)
    if not algorithm then -- a calendar
      text, of[x + 7] = match(text, '^(.*)~(.*)$')
      algorithm, most, P, Q = match(text, '^1(%a) (%d+) (%d+) (%d+)$')
    end
    if algorithm == 'c' then
      of[x + 7] = match(units, '^1#(.*)$')
      n = of[x + 7] and 1
    end
    isOrdinary = isOrdinary and n and n > 0 and algorithm ~= 'g'
    of[x + 1], of[x + 2], of[x + 3], of[x + 4], of[x + 5], of[x + 6] = text, algorithm, most + 0, P + 0, Q + 0, n
  end

  for request = 1, alike do
    local isKnown, allowed, looks, start, j = isOrdinary, true, false, length, 1
    while isKnown and j <= size do
      local key, x = keys[place + j], 16 * (j - 1)
      local algorithm, most, P, Q, n = of[x + 2], of[x + 3], of[x + 4], of[x + 5], of[x + 6]
      local at, a, b = 0, 0, 0
      if looks then -- what fits is not taken
        at, a, b, n = of[x + 8], of[x + 9], of[x + 10], of[x + 11] and 0
      elseif algorithm == 'c' then
        --- held
        isKnown = a
      else
        local text = written and writes[written[key]]
        if text == nil then
          text = only
          if texts then
            text = texts[place + j]
          end
        end
        if text then
          local prefix = of[x + 1]
          at, a, b = match(text, '^ (%d+) (%d+) (%d+)$', #prefix + 1)
          isKnown = at and at + 0 <= now and sub(text, 1, #prefix) == prefix
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

      if isKnown and n then
        local asOf, debt, isRead, fitsNever, periods = now, nil, true, n > most and algorithm ~= 'b', of[x + 7]
        local fits, left, reset, window, extra
        of[x + 8], of[x + 9], of[x + 10] = at, a, b
        if fitsNever then
          n = 0
        end
        if not muldiv and (algorithm == 's' and P * (b > 2 * most and b or 2 * most) > 9007199254740000
          or Q > 1 and (algorithm == 't' or algorithm == 'l' or algorithm == 'q')) then
          --- products
        end
        --- decide
        isKnown = fits ~= nil
        if fitsNever then
          fits, window = false, 9007199254740991
        end
        allowed = allowed and fits
        of[x + 11], of[x + 12], of[x + 13], of[x + 14], of[x + 15] = fits, at, a, b, reset
        reply[length + 1], reply[length + 2], reply[length + 3] = left, reset, fits and window or window and -window
        if algorithm == 'q' then
          reply[length + 4] = fits and not looks and extra or 0
        end
      end
      length = length + (algorithm == 'q' and 4 or 3)
      j = j + 1
      if j > size and size > 1 and not allowed and not looks then
        looks, length, j = true, start, 1
      end
    end

    if not isKnown then
      length = start
      if not decideGenerally then
        --- general
      end
      decideGenerally(i, mode, size, request)
    end
    for j = 1, isKnown and allowed and size or 0 do
      local key, x = keys[place + j], 16 * (j - 1)
      if of[x + 2] == 'c' then
        local id, P = sub(of[x + 7], 12 * request - 11, 12 * request), of[x + 4]
        --- hold
      else
        local at, a, b, reset = of[x + 12], of[x + 13], of[x + 14], of[x + 15]
        if at ~= latestAt then
          latestAt, latestAtText = at, format('%.0f', at)
        end
        local small = a < 2147483648 and b < 2147483648 -- 31 bits are enough on every server, and quicker
        local text = format(small and '%s %s %d %d' or '%s %s %.0f %.0f', of[x + 1], latestAtText, a, b)
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
    place = place + size
  end
  i = i + 2 * size + 1
end

for k = 1, last or 0, 3 do
  if writes[k + 1] then
    redis.call('SET', writes[k], writes[k + 1], 'PX', writes[k + 2])
  end
end
return reply
