-- Gives back what was taken from one key by a request that was then denied
-- elsewhere, as far as that can never credit a unit too many.
--
-- KEYS   the key
-- ARGV   1 the instant in microseconds since the Unix epoch, 0 for the server's
--        2 milliseconds that a state outlives its use
--        3 the limit, as in a state
--        4 the units taken
--        5 the instant at which they were taken
--        6 the time until fresh that the taking left, from that instant
-- reply  1 if something was given back, otherwise 0

start(ARGV[1], ARGV[2])
local key, limit = KEYS[1], ARGV[3]
local units, takenAt, left = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])

local t, s = read(key)
if not t or t.limit ~= limit then
  return 0 -- the state is fresh, or somebody counts by another limit by now
end

-- keep stores s, or nothing if it has become fresh.
local function keep()
  if untilFresh(t, s) > 0 then
    write(key, t, s)
  else
    redis.call('DEL', key)
  end
  return 1
end

-- A log loses that one entry; those after it have as many units less before them.
if t.algorithm == 'g' then
  local body, found = {}, nil
  for i = s.first, s.count - 1 do
    local at, start = taking(s, i)
    local _, stop = nil, s.total
    if i + 1 < s.count then
      _, stop = taking(s, i + 1)
    end
    if found then
      start = start - units
    end
    if not found and at == takenAt and stop - start == units then
      found = i
    else
      body[#body + 1] = format('%016.0f%016.0f', at, start)
      s.at = at
    end
  end
  if not found then
    return 0
  end
  if #body == 0 then
    redis.call('DEL', key)
    return 1
  end
  local ttl = format('%.0f', floor((max(0, s.at - now + t.P) + 999) / 1000) + slack)
  redis.call('SET', key, format('%s %08.0f %016.0f;', limit, 0, s.total - units) .. table.concat(body), 'PX', ttl)
  return 1
end

-- A queue loses them only if nobody queued behind, whose delay counts on them.
if t.algorithm == 'q' and (s.at ~= takenAt or ceil(s.a, s.b) ~= left) then
  return 0
end

s = settle(t, s)
if t.bucket then
  local us, frac = drain(t, units)
  us = us - max(0, s.held - takenAt) -- which would have drained without them too
  if us < 0 or us == 0 and frac == 0 then
    return 0
  end
  s.a, s.b = minus(t, s.a, s.b, us, frac)
  if s.a < 0 then
    s.a, s.b = 0, 0
  end
  return keep()
end

local window = takenAt - takenAt % t.P
if s.at == window then
  s.a = max(0, s.a - units)
elseif t.algorithm == 's' and s.at - window == t.P then
  s.b = max(0, s.b - units)
else
  return 0
end
return keep()
