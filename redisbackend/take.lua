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
--        "take" or "peek"; how many follow that are alike but for their keys, it included; how many
--        equal ones each stands for; and its number of keys. Then for each key
--          its limit, see limits.lua
--          the units of its enforced charges, "" if it has none; if it has shadow charges, ","
--          and the units of those; if they last, "@" and for how long: they may be settled; of
--          a concurrency limit "#" and the id of the first unit of each request and of each
--          that is equal to it, see concurrent.lua
-- reply  the instant, and for each request 1, or of n equal ones the number that was
--        decided, up to the first denial; negative if one is denied. The others get the same
--        denial. For each key of each that was decided these numbers follow for its
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
local reply, length = { now, nil, nil, nil, nil }, 1 -- of its final size for one key

-- What keys have: texts by their place, if they were read, false for nothing. What requests have
-- changed since is in writes, in this order: name, text and expiry of a key after the other.
-- written has its place there by name, if there is more than one request.
local isAlone = argv[1] == '1'
local texts = given == 'apart' and {} or redis.call('MGET', unpack(keys))
local writes, last, written = { nil, nil, nil }, 0, not isAlone and {} or nil
local at, i = 0, 1 -- of the latest key, and of the next argument
if given then
  i = 2
end

local decideGenerally -- general.lua, once a request needs it
local latestAt, latestAtText
local known = not isAlone and {} -- limits by their text
-- By three for each key of a request: its limit, the units, and the pattern of its text.
local charges = { nil, nil, nil }
-- By four for each: its state, and the time until it is fresh.
local states, nextStates = { nil, nil, nil, nil }, { nil, nil, nil, nil }
while argv[i] do
  local mode, alike, rounds, size = 'take', 1, 1, nil
  if isAlone then
    size = (#argv - 1) / 2
  else
    mode, alike, rounds, size = match(argv[i], '^(%a+) (%d+) (%d+) (%d+)$')
    alike, rounds, size = alike + 0, rounds + 0, size + 0
  end
  local isOrdinary = mode == 'take'
  for j = 1, size do
    local text, n = argv[i + 2 * j - 1], tonumber(argv[i + 2 * j])
    local limit = known and known[text] or newLimit(text)
    local pattern = limit.pattern or '^' .. text .. ' (%d+) (%d+) (%d+)$'
    if known then
      known[text], limit.pattern = limit, pattern
    end
    isOrdinary = isOrdinary and n and n > 0 and limit.decide
    charges[3 * j - 2], charges[3 * j - 1], charges[3 * j] = limit, n, pattern
  end

  for request = 1, alike do
    local isKnown = isOrdinary
    for j = 1, isKnown and size or 0 do
      local key, x = keys[at + j], 4 * j - 3
      local text = written and writes[written[key]]
      if text == nil then
        text = texts[at + j]
      end
      if text then
        local since, a, b = match(text, charges[3 * j])
        isKnown = since and since + 0 <= now
        if not isKnown then
          break
        end
        states[x], states[x + 1], states[x + 2] = since + 0, a + 0, b + 0
      elseif text == false and redis.pcall('GETRANGE', key, '0', '0') == '' then
        states[x], states[x + 1], states[x + 2] = 0, 0, 0 -- MGET reports nothing of what is no string, too
      else
        isKnown = false
        break
      end
    end

    local countAt, decided, allowed = length + 1, 0, true
    length = countAt
    reply[countAt] = 0 -- a table without gaps is quicker
    while isKnown and allowed and decided < rounds do
      local start = length
      for j = 1, size do
        local limit, n, x = charges[3 * j - 2], charges[3 * j - 1], 4 * j - 3
        local fitsNever = n > limit.most and limit.algorithm ~= 'b'
        local fits, left, reset, window, before
        fits, nextStates[x], nextStates[x + 1], nextStates[x + 2], left, reset, window, before =
          limit.decide(limit, now, states[x], states[x + 1], states[x + 2], fitsNever and 0 or n, nil, true)
        if fits == nil then
          isKnown = false
          break
        elseif fitsNever then
          fits, window = false, 9007199254740991
        end
        nextStates[x + 3] = reset
        allowed = allowed and fits
        reply[length + 1], reply[length + 2], reply[length + 3] = left, reset, fits and window or -window
        length = length + 3
        if limit.algorithm == 'q' then
          length = length + 1
          reply[length] = fits and before or 0
        end
      end
      if allowed then
        local before = states
        states = nextStates
        nextStates = before
      elseif size > 1 then -- what fits is not taken
        for j = 1, size do
          local limit, x = charges[3 * j - 2], 4 * j - 3
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
      decided = decided + 1
    end

    if isKnown then
      reply[countAt] = allowed and decided or -decided
      for j = 1, (allowed or decided > 1) and size or 0 do
        local key, x = keys[at + j], 4 * j - 3
        local since, a, b = states[x], states[x + 1], states[x + 2]
        if since ~= latestAt then
          latestAt, latestAtText = since, format('%.0f', since)
        end
        local place = written and written[key]
        if not place then
          place, last = last + 2, last + 3
          if written then
            written[key] = place
          end
        end
        local small = a < 2147483648 and b < 2147483648 -- 31 bits are enough on every server, and quicker
        writes[place - 1], writes[place], writes[place + 1] = key,
          format(small and '%s %s %d %d' or '%s %s %.0f %.0f', charges[3 * j - 2].text, latestAtText, a, b),
          format(states[x + 3] < 1000000000000 and '%d' or '%.0f', floor((states[x + 3] + 999) / 1000) + grace)
      end
    else
      length = countAt - 1
      if not decideGenerally then
        --- general
      end
      decideGenerally(i, mode, rounds, size, request)
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
