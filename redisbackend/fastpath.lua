-- The first part of the script of take.lua. It decides the common case at once: each
-- key has enforced charges only, they fit, the state was written under the same limit,
-- the clock has not stepped back, and no product needs more than 53 bits. If there is only
-- one key, of a bucket with Q = 1 or a window, it also denies what will fit later. In any
-- other case it changes nothing and leaves the decision to the rest of the script, which
-- takes three times as long.
--
-- take.lua specifies the results. This is the same arithmetic, unrolled for buckets
-- with Q = 1, for windows, and for one unit of a concurrency limit. Four things save a
-- sixth of the time together: one loop without functions, tables made in their final size
-- for up to two keys, %d where 31 bits suffice, and limits as one argument each.

local mode, given = ARGV[2 * #KEYS + 1], ARGV[2 * #KEYS + 2]
local instant, seconds, micros, ttlGrace
if given then
  instant, ttlGrace = given + 0, 86400000
  micros = instant % 1000000
  seconds = (instant - micros) / 1000000
else
  local time = redis.call('TIME')
  seconds, micros, ttlGrace = time[1], time[2] + 0, 1000
  instant = seconds * 1000000 + micros
end

if not mode or mode == 'take' then
  local call, floor, match, format = redis.call, math.floor, string.match, string.format
  local keys, arguments = KEYS, ARGV
  local reply, length, writes = nil, 1, nil
  local state, ttl, score
  if keys[2] then
    reply, writes = { instant, 0, 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0, 0 }
  else
    reply = { instant, 0, 0, 0 }
  end

  for i = 1, #keys do
    local key, limit, n = keys[i], arguments[2 * i - 1], arguments[2 * i]
    local algorithm, most, P, Q = match(limit, '^1(%a) (%d+) (%d+) (%d+)$')
    local window = algorithm == 'f' or algorithm == 's'
    local drains = algorithm == 't' or algorithm == 'l' or algorithm == 'q'
    local at, a, b = 0, 0, '0' -- or the digits of them
    local left, reset, effective
    if algorithm == 'c' then
      local id = match(n, '^1#(.*)$')
      local held = id and call('ZCARD', key)
      if not id or held >= most + 0 or held > 0 and call('ZCOUNT', key, '-inf', format('%s%06d', seconds, micros)) > 0 then
        reply = nil
        break
      end
      left, reset, effective, state = most - held - 1, 0, 0, id
      ttl = format('%d', floor((P + 999) / 1000) + ttlGrace)
      score = format('%.0f', instant + P)
    else
      n, score = tonumber(n), false
      if not n or n == 0 or not window and (Q ~= '1' or not drains) then
        reply = nil
        break
      end
      most, P = most + 0, P + 0
      local old = call('GET', key)
      if old then
        at, a, b = match(old, '^' .. limit .. ' (%d+) (%d+) (%d+)$')
        if not at or at + 0 > instant then
          reply = nil
          break
        end
      end

      if not window then
        local full, found = most * P, a + 0
        a = found - (instant - at)
        if a < 0 then
          a = 0
        end
        reset = a + n * P
        local room = full - reset
        if room < 0 then
          if not writes and n <= most and found <= full and b == '0' then
            return { instant, floor((full - a) / P), a, room, algorithm == 'q' and 0 or nil }
          end
          reply = nil
          break
        end
        left = floor(room / P)
        effective = left > 0 and left * P or P - room
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
        left, effective = most - a, reset
        if algorithm == 's' then
          local weight = reset * b
          left = left - floor(weight / P)
          local product = left * P
          if left == 0 or weight >= 9007199254740992 or product >= 9007199254740992 then
            reply = nil
            break
          end
          reset, effective = reset + P, floor((product + most - 1) / most)
        end
        if left < 0 then
          local taken, wait = a - n, reset
          local fine = not writes and n <= most and left + n >= 0
          if algorithm == 'f' then
            fine = fine and b == '0'
          else -- as untilFits of window.lua
            local c, m = b + 0, most - a
            wait = reset - 2 * P
            if m < 0 then
              c, m, wait = taken, most - n, reset - P
            end
            local whole = floor(P / c)
            local product = (P - whole * c) * (m + 1)
            if c > m then
              wait = wait + P + 1 - (m + 1) * whole - floor((product + c - 1) / c)
            end
            reset = taken > 0 and reset or reset - P
            fine = fine and c > 0 and c <= 2000000000 and product < 4503599627370496
          end
          if fine then
            return { instant, left + n, reset, -wait }
          end
          reply = nil
          break
        end
        state = format('%s %s %d %s', limit, at, a, b)
      end

      ttl = floor((reset + 999) / 1000) + ttlGrace
      ttl = ttl < 2147483648 and format('%d', ttl) or ttl
    end
    if writes then
      writes[3 * i - 2], writes[3 * i - 1], writes[3 * i] = state, ttl, score
    end
    reply[length + 1], reply[length + 2], reply[length + 3] = left, reset, effective
    length = length + 3
    if algorithm == 'q' then
      length = length + 1
      reply[length] = a
    end
  end

  if reply then
    for i = 1, #keys do
      if writes then
        state, ttl, score = writes[3 * i - 2], writes[3 * i - 1], writes[3 * i]
      end
      if score then
        call('ZADD', keys[i], score, state)
        call('PEXPIRE', keys[i], ttl)
      else
        call('SET', keys[i], state, 'PX', ttl)
      end
    end
    return reply
  end
end
