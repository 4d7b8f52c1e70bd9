-- The first part of take.lua: decides and takes at once where every key is as
-- almost all are: it has enforced charges only, they fit, its state was written
-- under the same limit, the clock has not stepped back, and no product needs
-- more than 53 bits. Otherwise it has changed nothing and leaves the decision to
-- the rest, at twice the price.
--
-- What is right here is what take.lua says: it is the same arithmetic, unrolled
-- for buckets with Q = 1 ("b", queues "q") and for windows ("f" fixed, "s"
-- sliding).

local instant = ARGV[1] + 0
if instant == 0 then
  local time = redis.call('TIME')
  instant = time[1] * 1000000 + time[2]
end

if ARGV[2] == 'take' then
  local call, floor, find, match, format = redis.call, math.floor, string.find, string.match, string.format

  -- plain returns what key i comes to: its state, the milliseconds that it is
  -- to live, and four of the numbers of a decision; nothing if it is not plain.
  local function plain(i)
    local arg = 5 * i - 1
    local limit, kind = ARGV[arg], ARGV[arg + 2]
    if kind == '' then
      return
    end
    local n, most, P = ARGV[arg + 1] + 0, ARGV[arg + 3] + 0, ARGV[arg + 4] + 0
    local at, a, b = 0, 0, 0
    local state = call('GET', KEYS[i])
    if state then
      if find(state, limit, 1, true) ~= 1 then
        return
      end
      at, a, b = match(state, '^ (%d+) (%d+) (%d+)$', #limit + 1)
      if not at then
        return
      end
      at, a, b = at + 0, a + 0, b + 0
      if at > instant then
        return
      end
    end
    if kind == 'b' or kind == 'q' then
      a = a - (instant - at)
      if a < 0 then
        a = 0
      end
      local full = a + n * P
      local room = most * P - full
      if room < 0 then
        return
      end
      local left = floor(room / P)
      return format('%s %.0f %.0f 0', limit, instant, full), floor((full + 999) / 1000) + ARGV[3],
        left, full, left > 0 and left * P or P - room, kind == 'q' and a or 0
    end
    local begin = instant - instant % P
    if at ~= begin then
      b = (kind == 's' and begin - at == P) and a or 0
      a = 0
    end
    a = a + n
    local rest = begin - instant + P
    local weight = rest * b
    local left = most - floor(weight / P) - a
    local spread = left * P
    if left < 0 or left == 0 and kind == 's' or weight >= 9007199254740992 or spread >= 9007199254740992 then
      return
    end
    if kind == 'f' then
      return format('%s %.0f %.0f 0', limit, begin, a), floor((rest + 999) / 1000) + ARGV[3], left, rest, rest, 0
    end
    rest = rest + P
    return format('%s %.0f %.0f %.0f', limit, begin, a, b), floor((rest + 999) / 1000) + ARGV[3], left, rest, floor((spread + most - 1) / most), 0
  end

  local state, ttl, left, reset, window, delay = plain(1)
  if state then
    local reply, states, ttls = { instant, left, 0, reset, window, delay }, nil, nil
    if #KEYS > 1 then
      states, ttls = {}, {}
      for i = 2, #KEYS do
        local r = 5 * i - 3
        states[i], ttls[i], reply[r], reply[r + 2], reply[r + 3], reply[r + 4] = plain(i)
        if not states[i] then
          reply = nil
          break
        end
        reply[r + 1] = 0
      end
    end
    if reply then
      call('SET', KEYS[1], state, 'PX', ttl)
      for i = 2, #KEYS do
        call('SET', KEYS[i], states[i], 'PX', ttls[i])
      end
      return reply
    end
  end
end

