-- The first part of take.lua: decides and takes at once where every key is as
-- almost all are: it has enforced charges only, they fit, its state was written
-- under the same limit, the clock has not stepped back, and no product needs
-- more than 53 bits. Otherwise it has changed nothing and leaves the decision to
-- the rest, at twice the price.
--
-- What is right here is what take.lua says: it is the same arithmetic, unrolled
-- for buckets with Q = 1 ("b", queues "q") and for windows ("f" fixed, "s"
-- sliding).

local instant = tonumber(ARGV[1])
if instant == 0 then
  local time = redis.call('TIME')
  instant = time[1] * 1000000 + time[2]
end

if ARGV[2] == 'take' then
  local call, floor, find, match, format = redis.call, math.floor, string.find, string.match, string.format
  local states, ttls, reply, plain = {}, {}, { instant }, true
  for i = 1, #KEYS do
    local arg = 6 * i - 2
    local limit, n, kind, most, P = ARGV[arg], tonumber(ARGV[arg + 1]), ARGV[arg + 3], tonumber(ARGV[arg + 4]), tonumber(ARGV[arg + 5])
    if kind == '' then
      plain = false
      break
    end
    local at, a, b = 0, 0, 0
    local state = call('GET', KEYS[i])
    if state then
      at = nil
      if find(state, limit, 1, true) == 1 then
        at, a, b = match(state, '^ (%d+) (%d+) (%d+)$', #limit + 1)
      end
      if not at then
        plain = false
        break
      end
      at, a, b = tonumber(at), tonumber(a), tonumber(b)
      if at > instant then
        plain = false
        break
      end
    end
    local left, reset, window, delay
    if kind == 'b' or kind == 'q' then
      a = a - (instant - at)
      if a < 0 then
        a = 0
      end
      delay = kind == 'q' and a or 0
      a = a + n * P
      local room = most * P - a
      if room < 0 then
        plain = false
        break
      end
      left, reset = floor(room / P), a
      window = left > 0 and left * P or P - room
      states[i] = format('%s %.0f %.0f 0', limit, instant, a)
    else
      local begin = instant - instant % P
      if at ~= begin then
        b = (kind == 's' and at == begin - P) and a or 0
        a = 0
      end
      local rest = begin - instant + P
      local weight = rest * b
      left = most - floor(weight / P) - a - n
      local spread = left * P
      if weight >= 9007199254740992 or spread >= 9007199254740992 or left < 0 or left == 0 and kind == 's' then
        plain = false
        break
      end
      if kind == 'f' then
        reset, window = rest, rest
      else
        reset, window = rest + P, floor((spread + most - 1) / most)
      end
      delay = 0
      states[i] = format('%s %.0f %.0f %.0f', limit, begin, a + n, b)
    end
    ttls[i] = floor((reset + 999) / 1000) + ARGV[3]
    local r = 5 * i - 3
    reply[r], reply[r + 1], reply[r + 2], reply[r + 3], reply[r + 4] = left, 0, reset, window, delay
  end
  if plain then
    for i = 1, #KEYS do
      call('SET', KEYS[i], states[i], 'PX', ttls[i])
    end
    return reply
  end
end

