-- The ring of a bucket with charges that last, so that their units can be refunded long after they
-- were taken. Part of them drains in the meantime. A refund is worth at most the lowest level that
-- a later taking has found: without the units that level would have been lower, but not below 0. So
-- the ring keeps the lowest levels that takings found in eight slices of time.
--
-- For example a bucket drains a unit a second:
--
--   0 s   a taking of 10 finds the bucket empty, and leaves a level of 10 s
--   8 s   a taking of 1 finds a level of 2 s, and leaves one of 3 s
--   8 s   a refund of all 10 is worth 2 s: the level is 1 s, as without the 10 units
--
-- A state has these numbers behind its serial:
--   zero     the latest instant at which the level was 0 or unknown: the ring begins there
--   width    of a slice, in microseconds
--   newest   the number of the latest slice: instant / width
--   low      eight numbers, one for each slice: the lowest level that takings found in it, in
--            whole microseconds; "-" if there were none. In memory they are texts, that of a slice
--            at index slice % 8 + 1
-- In memory old is true if another limit made the ring: see convert.lua.

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

-- noteLevel returns the ring of a state after a taking at the instant at found the level a, b. It
-- changes the ring or returns a new one; nil stands for none. lasts is 0 if the charge does not
-- last.
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
  -- foundAt returns a level that is no higher than any that takings at an instant found.
  local function foundAt(ring, at)
    return at > ring.zero and lowest(ring, floor(at / ring.width)) or 0
  end

  -- upTo returns the longest time from an instant to a taking in a slice. last is the instant of
  -- the latest taking.
  local function upTo(ring, slice, at, last)
    return min(last, (slice + 1) * ring.width - 1) - at
  end

  -- worth returns how much of d, the drain time of the refunded units, is still part of the level.
  -- Their taking was at the instant at, and all its units drain in the time cost. Later takings
  -- have found at least the lows of their slices, and at least the level that this taking left,
  -- less the time since.
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

  -- lower lowers the lows by d after a refund of d to the taking at an instant. None falls below
  -- the level that this taking left, less the time since. In its slice, an earlier taking may have
  -- found a lower level, which stays.
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
