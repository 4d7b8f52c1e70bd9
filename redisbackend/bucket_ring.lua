-- The ring of a bucket with charges that last: the least levels that takings found, for eight slices of
-- time, so that units can be returned long after they were taken. A taking leaves the bucket higher by
-- its cost until the bucket, lower by as much, would have been empty. So a refund is worth at most the
-- least level that later takings have found.
--
-- For example a bucket drains a unit a second. A taking of 10 units leaves it at 10 s. A taking of 1 after 8 s
-- finds 2 s and leaves 3 s. A refund of all 10 is worth 2 s: without them the bucket would have been empty,
-- and would be at 1 s now.
--
-- A state of version 2 has these numbers behind the ";":
--   zero     the latest instant at which the level was 0, or was not known
--   width    of a slice, microseconds
--   newest   the number of the latest slice: instant / width
--   low      eight: the least level in the slice whose number leaves 0, 1, ... when divided by 8, whole
--            microseconds; "-" if nothing was taken in it. In memory they are texts, from 1 on

min, max = math.min, math.max
local slices = 8

local function newRing(at, width)
  return { zero = at, width = width, newest = floor(at / width), low = { '-', '-', '-', '-', '-', '-', '-', '-' } }
end

-- lowest returns the least level in a slice, nil if nothing was taken in it.
local function lowest(ring, slice)
  return tonumber(ring.low[slice % slices + 1])
end

-- noteLevel returns the ring of a state once a taking at an instant has found the level a, b. The taking
-- lasts for so long; 0: no longer than others. It may be another ring.
noteLevel = function(ring, at, a, b, lasts)
  local width, empty = floor((lasts + slices - 1) / slices), a == 0 and b == 0
  if lasts == 0 and (not ring or empty) then
    return nil
  elseif not ring or ring.old or lasts > 0 and width ~= ring.width or floor(at / ring.width) < ring.newest then
    return newRing(at, lasts > 0 and width or ring.width)
  elseif empty then
    return newRing(at, ring.width)
  end
  local slice = floor(at / ring.width)
  for i = max(ring.newest, slice - slices) + 1, slice do
    ring.low[i % slices + 1] = '-'
  end
  ring.newest = slice
  ring.low[slice % slices + 1] = format(whole, min(lowest(ring, slice) or a, a))
  return ring
end

encodeRing = function(ring)
  return sub(format(wholes, ring.zero, ring.width, ring.newest), 2) .. ' ' .. table.concat(ring.low, ' ')
end

-- decodeRing returns the ring in text, nil if a script cannot have written it.
decodeRing = function(text)
  local zero, width, newest, rest = match(text, '^(%d+) (%d+) (%d+) (.*)$')
  local low = { match(rest or '', '^([%d-]+) ([%d-]+) ([%d-]+) ([%d-]+) ([%d-]+) ([%d-]+) ([%d-]+) ([%d-]+)$') }
  if not low[1] or width + 0 < 1 or max(zero, width, newest) >= 9007199254740992 then
    return nil
  end
  for i = 1, slices do
    if low[i] ~= '-' and (tonumber(low[i]) or 9007199254740992) >= 9007199254740992 then
      return nil
    end
  end
  return { zero = zero + 0, width = width + 0, newest = newest + 0, low = low }
end

if settles then
  -- foundAt returns a level that a taking at an instant has found at least. What opened the ring is not
  -- known to have found any.
  local function foundAt(ring, at)
    return at > ring.zero and lowest(ring, floor(at / ring.width)) or 0
  end

  -- upTo returns how long after an instant takings of a slice were at most, the latest of all being at
  -- the instant last.
  local function upTo(ring, slice, at, last)
    return min(last, (slice + 1) * ring.width - 1) - at
  end

  -- worth returns how much of d, the drain time of the refunded units, is still part of the level. They are
  -- of a taking at an instant, which drains in cost as a whole.
  worth = function(ring, at, cost, d, last)
    local slice = floor(at / ring.width)
    if at < ring.zero or ring.newest - slice >= slices then
      return 0
    end
    local level = foundAt(ring, at) + cost
    for i = slice, ring.newest do
      d = min(d, max(lowest(ring, i) or d, level - upTo(ring, i, at, last)))
    end
    return d
  end

  -- lower lowers what takings since an instant have found by d, which is returned of a taking at that
  -- instant. Some levels of its slice belong to earlier takings, and those are not below what the taking
  -- leaves behind, less what drains.
  lower = function(ring, at, cost, d, last)
    local level = foundAt(ring, at) + cost - d
    for i = max(floor(at / ring.width), ring.newest - slices + 1), ring.newest do
      local low = lowest(ring, i)
      if low then
        ring.low[i % slices + 1] = format(whole, min(low, max(0, low - d, level - upTo(ring, i, at, last))))
      end
    end
  end
end
