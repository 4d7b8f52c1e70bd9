-- The ring of a bucket with charges that last, so that their units can be refunded long after they
-- were taken. Other units drain in the meantime. What is a refund still worth? It is worth at most
-- the lowest level that a later taking has found: at that level the bucket without the refunded
-- units would have been empty. So the ring keeps the lowest levels that takings found in eight
-- slices of time.
--
-- For example a bucket drains a unit a second:
--
--   0 s   a taking of 10 finds the bucket empty, and leaves a level of 10 s
--   8 s   a taking of 1 finds a level of 2 s, and leaves one of 3 s
--   8 s   a refund of all 10 is worth 2 s: the level is 1 s, as without the 10 units
--
-- A state of version 2 has these numbers behind the ";":
--   zero     the latest instant at which the level was 0, or was unknown
--   width    of a slice, in microseconds
--   newest   the number of the latest slice: instant / width
--   low      eight numbers: the lowest level that takings found in a slice, in whole
--            microseconds, "-" if there were none. slice % 8 is the index; in memory they are
--            texts, from index 1

min, max = math.min, math.max
local slices = 8

local function newRing(at, width)
  local low = { '-', '-', '-', '-', '-', '-', '-', '-' }
  return { zero = at, width = width, newest = floor(at / width), low = low }
end

-- lowest returns the lowest level that takings found in a slice, nil if there were none.
local function lowest(ring, slice)
  return tonumber(ring.low[slice % slices + 1])
end

-- noteLevel returns the ring of a state after a taking at an instant found the level a, b. The
-- charge lasts so long; 0 if it is not one that lasts. The ring may be another table.
noteLevel = function(ring, at, a, b, lasts)
  local width, empty = floor((lasts + slices - 1) / slices), a == 0 and b == 0
  if lasts == 0 and (not ring or empty) then
    return nil
  elseif not ring or ring.old or lasts > 0 and width ~= ring.width
    or floor(at / ring.width) < ring.newest then
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
  local numbers = sub(format(wholes, ring.zero, ring.width, ring.newest), 2)
  return numbers .. ' ' .. table.concat(ring.low, ' ')
end

-- decodeRing returns the ring in a text, nil if no script can have written it.
decodeRing = function(text)
  local zero, width, newest, rest = match(text, '^(%d+) (%d+) (%d+) (.*)$')
  local low = {
    match(rest or '', '^([%d-]+) ([%d-]+) ([%d-]+) ([%d-]+) ([%d-]+) ([%d-]+) ([%d-]+) ([%d-]+)$')
  }
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
  -- foundAt returns a level that takings at an instant found at least, 0 if that is unknown.
  local function foundAt(ring, at)
    return at > ring.zero and lowest(ring, floor(at / ring.width)) or 0
  end

  -- upTo returns the time from an instant to the end of a slice, or to the latest taking, which
  -- was at the instant last.
  local function upTo(ring, slice, at, last)
    return min(last, (slice + 1) * ring.width - 1) - at
  end

  -- worth returns how much of d, the drain time of the refunded units, is still part of the level.
  -- Their taking was at an instant and drains in the time cost as a whole.
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

  -- lower lowers the levels in the ring by d after a refund to the taking at an instant. Its slice
  -- may have levels from before that taking. So no level falls below what the taking left, less
  -- what has drained since.
  lower = function(ring, at, cost, d, last)
    local level = foundAt(ring, at) + cost - d
    for i = max(floor(at / ring.width), ring.newest - slices + 1), ring.newest do
      local low = lowest(ring, i)
      if low then
        low = min(low, max(0, low - d, level - upTo(ring, i, at, last)))
        ring.low[i % slices + 1] = format(whole, low)
      end
    end
  end
end
