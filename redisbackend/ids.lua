-- Knows the ids of units of concurrency limits.

local byte, char = string.byte, string.char

-- following returns the n-th id after id.
local function following(id, n)
  local bytes = { byte(id, 7, 12) }
  for i = 6, 1, -1 do
    n = n + bytes[i]
    bytes[i] = n % 256
    n = math.floor(n / 256)
  end
  return string.sub(id, 1, 6) .. char(unpack(bytes))
end

-- unitsOf returns how many units a holder has, by the id of its first one, and when they end. now is
-- a number.
local function unitsOf(key, first)
  local n, ends = 0, 0
  while true do
    local score = redis.call('ZSCORE', key, following(first, n))
    if not score or tonumber(score) <= now then
      return n, ends
    end
    n, ends = n + 1, tonumber(score)
  end
end
