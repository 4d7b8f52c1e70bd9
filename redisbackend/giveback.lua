-- Gives back what was taken from one key by a request that was then denied
-- elsewhere, as far as that can never credit a unit too many: afterwards there is
-- at least as much in use as if it had never been taken.
--
-- KEYS   the key
-- ARGV   1 the limit, as in a state
--        2 the units taken
--        3 the instant at which they were taken, in microseconds since the Unix epoch
--        4 the time until fresh that the taking left, from that instant
--        5 the instant, if not the server's
-- reply  1 if something was given back, otherwise 0
--
-- The state stays as of its last taking and is not brought forward: only takings
-- hold a clock that steps back.

local key, limit = KEYS[1], ARGV[1]
local units, takenAt, left = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if ARGV[5] then
  now, slack = tonumber(ARGV[5]), 86400000
else
  local time = redis.call('TIME')
  now, slack = time[1] * 1000000 + time[2], 1000
end

local t, s = read(key)
if not t or t.limit ~= limit then
  return 0 -- the state is fresh, or somebody counts by another limit by now
end

-- A log loses that one entry; those after it have as many units less before them.
if t.algorithm == 'g' then
  local i = search(s.first, s.count - 1, function(i)
    return taking(s, i) >= takenAt
  end)
  local head = ''
  if i > s.first then
    head = redis.call('GETRANGE', key, s.header + 32 * s.first, s.header + 32 * i - 1)
  end
  local tail = redis.call('GETRANGE', key, s.header + 32 * i, -1)
  local function entry(j)
    return tonumber(string.sub(tail, j, j + 15)), tonumber(string.sub(tail, j + 16, j + 31))
  end
  local body, found = { head }, false
  for j = 1, #tail, 32 do
    local at, begin = entry(j)
    local stop = s.total
    if j + 32 < #tail then
      stop = select(2, entry(j + 32))
    end
    if not found and at == takenAt and stop - begin == units then
      found = true
    else
      body[#body + 1] = format('%016.0f%016.0f', at, found and begin - units or begin)
      s.last = at
    end
  end
  if not found then
    return 0
  end
  if not s.last and head ~= '' then
    s.last = taking(s, i - 1)
  end
  local wait = s.last and s.last - now + t.P or 0
  if wait <= 0 then
    redis.call('DEL', key)
    return 1
  end
  local ttl = format('%.0f', floor((wait + 999) / 1000) + slack)
  redis.call('SET', key, format('%s %08.0f %016.0f;', limit, 0, s.total - units) .. table.concat(body), 'PX', ttl)
  return 1
end

if t.bucket then
  if s.at < takenAt then
    return 0 -- the clock has stepped back since, and nobody can tell how much has drained
  end
  -- A queue loses them only if nobody queued behind, whose delay counts on them:
  -- if it is empty when the taking said that it would be.
  if t.algorithm == 'q' and s.at - takenAt + ceil(s.a, s.b) ~= left then
    return 0
  end
  local us, frac = drain(t, units)
  us = us - max(0, s.at - takenAt) -- which may have drained without them too
  if us < 0 or us == 0 and frac == 0 then
    return 0
  end
  s.a, s.b = minus(t, s.a, s.b, us, frac)
  if s.a < 0 then
    s.a, s.b = 0, 0
  end
elseif t.algorithm == 'n' then
  -- The window is known by its end. If nobody else took when the taking opened it,
  -- but somebody did later, it would have opened then, and close later.
  if s.at + t.P ~= takenAt + left then
    return 0
  elseif s.at == takenAt then
    if s.b <= units and s.a > units then
      return 0
    end
    s.b = max(0, s.b - units)
  end
  s.a = max(0, s.a - units)
  if s.a == 0 then
    s.at = now -- no window is open
  end
else
  local window = takenAt - takenAt % t.P
  if s.at == window then
    s.a = max(0, s.a - units)
  elseif t.algorithm == 's' and s.at - window == t.P then
    s.b = max(0, s.b - units)
  else
    return 0
  end
end

if untilFresh(t, s) > 0 then
  write(key, t, s)
else
  redis.call('DEL', key)
end
return 1
