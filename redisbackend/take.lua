-- Decides requests one after the other, at one instant. Each takes all that it
-- charges or nothing. All keys are read first, and each that has changed is written once, at the
-- end. A server that refuses to write refuses the first write, so either all requests have
-- taken what they were granted, or the reply is an error and none has. Logs and concurrency
-- limits are read and written as their requests are decided.
--
-- KEYS   the keys of a request, each once, then those of the next
-- ARGV   "1" if there is one request, which takes. Otherwise first "server" for the clock of the
--        server, "apart" for the same if there are logs, which may be long and are not read with the
--        others, or the instant in microseconds since the Unix epoch; and for each request its mode,
--        "take" or "peek"; how many follow that are alike but for their keys, it included; and its
--        number of keys. Then for each key
--          its limit, see limits.lua
--          the units of its enforced charges, "" if it has none; if it has shadow charges, ","
--          and the units of those; if they last, "@" and for how long: they may be settled; of
--          a concurrency limit "#" and the id of the first unit of each request, see
--          concurrent.lua
-- reply  the instant, and for each key of each request these numbers for its
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
local reply, length = { now, nil, nil, nil }, 1 -- of its final size for one key

-- What keys have: texts by their place, if they were read, false for nothing. If there is more than
-- one request, what they have changed since is in writes, in this order: name, text and expiry of
-- a key after the other; written has its place there by name.
local isAlone = not given
local texts = given == 'apart' and {} or redis.call('MGET', unpack(keys))
local writes, last, written = nil, 0, nil
if not isAlone then
  writes, written = {}, {}
end
local at, i = 0, isAlone and 1 or 2 -- of the latest key, and of the next argument

local decideGenerally -- general.lua, once a request needs it
local latestAt, latestAtText
local known = not isAlone and {} -- limits by their text
-- By three for each key of a request: its limit, the units, and the ids of units of a concurrency
-- limit. By seven: its state, the state that it gets, and the time until that is fresh.
local charges, states = { nil, nil, nil }, { nil, nil, nil, nil, nil, nil, nil }
while argv[i] do
  local mode, alike, size = 'take', 1, nil
  if isAlone then
    size = (#argv - 1) / 2
  else
    mode, alike, size = match(argv[i], '^(%a+) (%d+) (%d+)$')
    alike, size = alike + 0, size + 0
  end
  local isOrdinary = mode == 'take'
  for j = 1, size do
    local text, units = argv[i + 2 * j - 1], argv[i + 2 * j]
    local limit, ids = known and known[text] or newLimit(text), nil
    if known then
      known[text] = limit
    end
    if limit.hold then
      ids = match(units, '^1#(.*)$')
      units = ids and 1
    end
    local n = tonumber(units)
    isOrdinary = isOrdinary and n and n > 0 and limit.decide
    charges[3 * j], charges[3 * j + 1], charges[3 * j + 2] = limit, n, ids
  end

  for request = 1, alike do
    local isKnown, allowed, start = isOrdinary, true, length
    for j = 1, isKnown and size or 0 do
      local limit, key, x = charges[3 * j], keys[at + j], 7 * j
      local text = written and writes[written[key]]
      if text == nil then
        text = texts[at + j]
      end
      local since, a, b = 0, 0, 0
      if limit.hold then
        a = limit.held(limit, key)
        if not a then
          isKnown = false
          break
        end
      elseif text then
        since, a, b = match(text, '^ (%d+) (%d+) (%d+)$', #limit.text + 1)
        if not since or since + 0 > now or sub(text, 1, #limit.text) ~= limit.text then
          isKnown = false
          break
        end
        since, a, b = since + 0, a + 0, b + 0
      elseif text == nil or redis.pcall('GETRANGE', key, '0', '0') ~= '' then -- MGET finds nothing where there is no string, too
        isKnown = false
        break
      end
      local n = charges[3 * j + 1]
      local fitsNever = n > limit.most and limit.algorithm ~= 'b'
      local fits, left, reset, window, before
      states[x], states[x + 1], states[x + 2] = since, a, b
      fits, since, a, b, left, reset, window, before = limit.decide(limit, now, since, a, b, fitsNever and 0 or n, nil, true)
      if fits == nil then
        isKnown = false
        break
      elseif fitsNever then
        fits, window = false, 9007199254740991
      end
      states[x + 3], states[x + 4], states[x + 5], states[x + 6] = since, a, b, reset
      allowed = allowed and fits
      reply[length + 1], reply[length + 2], reply[length + 3] = left, reset, fits and window or -window
      length = length + 3
      if limit.algorithm == 'q' then
        length = length + 1
        reply[length] = fits and before or 0
      end
    end

    if not isKnown then
      length = start
      if not decideGenerally then
        --- general
      end
      decideGenerally(i, mode, size, request)
    elseif allowed then
      for j = 1, size do
        local limit, key, x = charges[3 * j], keys[at + j], 7 * j
        if limit.hold then
          limit.hold(limit, key, sub(charges[3 * j + 2], 12 * request - 11, 12 * request))
        else
          local since, a, b, reset = states[x + 3], states[x + 4], states[x + 5], states[x + 6]
          if since ~= latestAt then
            latestAt, latestAtText = since, format('%d%08d', floor(since / 100000000), since % 100000000) -- quicker than %.0f
          end
          local small = a < 2147483648 and b < 2147483648 -- 31 bits are enough on every server, and quicker
          local text = format(small and '%s %s %d %d' or '%s %s %.0f %.0f', limit.text, latestAtText, a, b)
          local expires = format(reset < 1000000000000 and '%d' or '%.0f', floor((reset + 999) / 1000) + grace)
          if isAlone then
            redis.call('SET', key, text, 'PX', expires)
          else
            local place = written[key]
            if not place then
              place, last = last + 2, last + 3
              written[key], writes[place - 1] = place, key
            end
            writes[place], writes[place + 1] = text, expires
          end
        end
      end
    elseif size > 1 then -- what fits is not taken
      for j = 1, size do
        local limit, x = charges[3 * j], 7 * j
        if reply[start + 3] >= 0 then
          local _
          _, _, _, _, reply[start + 1], reply[start + 2], reply[start + 3] =
            limit.decide(limit, now, states[x], states[x + 1], states[x + 2], 0)
        end
        start = start + 3
        if limit.algorithm == 'q' then
          start = start + 1
          reply[start] = 0
        end
      end
    end
    at = at + size
  end
  i = i + 2 * size + 1
end

for k = 1, last, 3 do
  if writes[k + 1] then
    redis.call('SET', writes[k], writes[k + 1], 'PX', writes[k + 2])
  end
end
return reply
