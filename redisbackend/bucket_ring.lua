-- The ring of a bucket with charges that last: the least levels that takings found, for
-- eight slices of time, so that units can be returned long after they were taken. A
-- taking leaves the bucket higher by its cost until the bucket, lower by as much, would
-- have been empty. So a refund is worth at most the least level that later takings have
-- found.
--
-- A state of version 2 has these numbers behind the ";":
--   zero     the latest instant at which the level was 0, or was not known
--   width    of a slice, microseconds
--   newest   the number of the latest slice: instant / width
--   low      eight: the least level in the slice whose number leaves 0, 1, ... when
--            divided by 8, whole microseconds; "-" if nobody took in it

local slices = 8

local function newRing(at, width)
  return { zero = at, width = width, newest = floor(at / width), low = {} }
end

-- noteLevel returns the ring of a state that a taking finds, which lasts for so long; 0: no longer
-- than others. It may be another ring.
local function noteLevel(s, lasts)
  local ring, at, width = s.ring, s.asOf, floor((lasts + slices - 1) / slices)
  local empty = s.a == 0 and s.b == 0
  if lasts == 0 and (not ring or empty) then
    return nil
  elseif not ring or ring.old or lasts > 0 and width ~= ring.width or floor(at / ring.width) < ring.newest then
    return newRing(at, lasts > 0 and width or ring.width)
  elseif empty then
    return newRing(at, ring.width)
  end
  local slice = floor(at / ring.width)
  if slice - ring.newest >= slices then
    ring.low = {}
  else
    for i = ring.newest + 1, slice do
      ring.low[i % slices] = nil
    end
  end
  ring.newest = max(ring.newest, slice)
  ring.low[slice % slices] = min(ring.low[slice % slices] or s.a, s.a)
  return ring
end

-- foundAt returns a level that a taking at an instant has found at least. What opened the
-- ring is not known to have found any.
local function foundAt(ring, at)
  return at > ring.zero and ring.low[floor(at / ring.width) % slices] or 0
end

-- upTo returns how long after an instant takings of a slice were at most, the latest of all
-- being at the instant last.
local function upTo(ring, slice, at, last)
  return min(last, (slice + 1) * ring.width - 1) - at
end

-- worth returns how much of the time d, for which units of a taking at an instant drain,
-- the level is higher for it now. The whole taking drains in cost.
local function worth(ring, at, cost, d, last)
  local slice = floor(at / ring.width)
  if at < ring.zero or ring.newest - slice >= slices then
    return 0
  end
  local level = foundAt(ring, at) + cost
  for i = slice, ring.newest do
    d = min(d, max(ring.low[i % slices] or d, level - upTo(ring, i, at, last)))
  end
  return d
end

-- lower lowers what takings since an instant have found by d, which is returned of a taking
-- at that instant. Not every level of its slice is of a later taking, and those are not
-- below what the taking leaves behind, less what drains.
local function lower(ring, at, cost, d, last)
  local level = foundAt(ring, at) + cost - d
  for i = max(floor(at / ring.width), ring.newest - slices + 1), ring.newest do
    local low = ring.low[i % slices]
    if low then
      ring.low[i % slices] = min(low, max(0, low - d, level - upTo(ring, i, at, last)))
    end
  end
end

local function encodeRing(ring)
  local text = { digits(ring.zero), digits(ring.width), digits(ring.newest) }
  for i = 0, slices - 1 do
    text[i + 4] = ring.low[i] and digits(ring.low[i]) or '-'
  end
  return table.concat(text, ' ')
end

-- decodeRing returns the ring in text, nil if nobody can have written it.
local function decodeRing(text)
  local numbers = {}
  for number in string.gmatch(text, '%S+') do
    numbers[#numbers + 1] = number == '-' and -1 or tonumber(number) or 9007199254740992
  end
  local ring = { zero = numbers[1], width = numbers[2], newest = numbers[3], low = {} }
  if #numbers ~= 3 + slices or ring.width < 1 or min(ring.zero, ring.newest) < 0 or max(unpack(numbers)) >= 9007199254740992 then
    return nil
  end
  for i = 0, slices - 1 do
    ring.low[i] = numbers[i + 4] >= 0 and numbers[i + 4] or nil
  end
  return ring
end
