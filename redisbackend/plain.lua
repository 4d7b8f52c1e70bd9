-- The first part of take.lua: decides and takes at once where every key is as
-- almost all are: it has enforced charges only, they fit, its state was written
-- under the same limit, the clock has not stepped back, and no product needs
-- more than 53 bits. Otherwise it has changed nothing and leaves the decision to
-- the rest, at two and a half times the price.
--
-- What is right here is what take.lua says: it is the same arithmetic, unrolled
-- for buckets with Q = 1 and for windows. It is one loop without functions, tables
-- are made in their size, %d is used where 31 bits suffice on every server, and
-- what a limit says is taken apart here, since Redis spends more on an argument:
-- together that takes a sixth off.

local mode, given = ARGV[2 * #KEYS + 1], ARGV[2 * #KEYS + 2]
local instant, seconds, micros, outlives
if given then
  instant, outlives = given + 0, 86400000
  micros = instant % 1000000
  seconds = (instant - micros) / 1000000
else
  local time = redis.call('TIME')
  seconds, micros, outlives = time[1], time[2] + 0, 1000
  instant = seconds * 1000000 + micros
end

if not mode or mode == 'take' then
  local call, floor, match, format = redis.call, math.floor, string.match, string.format
  local reply, length = { instant, 0, 0, 0 }, 1
  local state, ttl, states, ttls
  if KEYS[2] then
    states, ttls = {}, {}
  end

  for i = 1, #KEYS do
    local limit, n = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
    local algorithm, most, P, Q = match(limit, '^1(%a) (%d+) (%d+) (%d+)$')
    local window = algorithm == 'f' or algorithm == 's'
    if not n or n == 0 or not window and Q ~= '1' or algorithm == 'g' or algorithm == 'n' then
      reply = nil
      break
    end
    most, P = most + 0, P + 0
    local at, a, b = 0, 0, '0' -- or the digits of them
    local old = call('GET', KEYS[i])
    if old then
      at, a, b = match(old, '^' .. limit .. ' (%d+) (%d+) (%d+)$')
      if not at or at + 0 > instant then
        reply = nil
        break
      end
    end

    local left, reset, spread
    if not window then
      a = a - (instant - at)
      if a < 0 then
        a = 0
      end
      reset = a + n * P
      local room = most * P - reset
      if room < 0 then
        reply = nil
        break
      end
      left = floor(room / P)
      spread = left > 0 and left * P or P - room
      state = format(reset < 2147483648 and '%s %s%06d %d 0' or '%s %s%06d %.0f 0', limit, seconds, micros, reset)
    else
      reset = P - instant % P
      local begin = instant + reset - P
      if at + 0 ~= begin then
        if (begin - at) % P ~= 0 then -- never written: the rest says so
          reply = nil
          break
        end
        b = algorithm == 's' and begin - at == P and a or '0'
        at, a = format('%.0f', begin), 0
      end
      a = a + n
      left, spread = most - a, reset
      if algorithm == 's' then
        local weight = reset * b
        left = left - floor(weight / P)
        local product = left * P
        if left == 0 or weight >= 9007199254740992 or product >= 9007199254740992 then
          reply = nil
          break
        end
        reset, spread = reset + P, floor((product + most - 1) / most)
      end
      if left < 0 then
        reply = nil
        break
      end
      state = format('%s %s %d %s', limit, at, a, b)
    end

    ttl = floor((reset + 999) / 1000) + outlives
    ttl = ttl < 2147483648 and format('%d', ttl) or ttl
    if states then
      states[i], ttls[i] = state, ttl
    end
    reply[length + 1], reply[length + 2], reply[length + 3] = left, reset, spread
    length = length + 3
    if algorithm == 'q' then
      length = length + 1
      reply[length] = a
    end
  end

  if reply and not states then
    call('SET', KEYS[1], state, 'PX', ttl)
    return reply
  elseif reply then
    for i = 1, #KEYS do
      call('SET', KEYS[i], states[i], 'PX', ttls[i])
    end
    return reply
  end
end

