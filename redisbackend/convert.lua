-- Stored states of other limits, and states that are far ahead of the clock.
--
-- The clock may step back, or another server with another clock may take over. For example a limit
-- allows 100 a minute, and the fixed window of 12:00 has 80 units. The clock steps back to
--
--   11:59:30  less than a period: the window stays at 12:00, and waits count until 12:01
--   11:30:00  more than a period: the state is rebased, and the window of 11:30 has 80 units
--
-- Conversion of a state to another limit is shown in state.lua.

-- maxStepBack returns the longest step back after which a state stays as it is.
local function maxStepBack(limit)
  return limit.family.drains and 1000000 or max(1000000, limit.P)
end

-- began returns a new state of a key, as of now, in which the units of a change were taken at its
-- instant, the maximum at most. If that instant is far ahead, now takes its place. The field begun
-- is the same state as of that instant.
local function began(key, limit, change)
  local owner, n = limit.family, min(change.units, limit.most)
  local at, ends = change.at, change.ends
  if at - now > maxStepBack(limit) then
    at, ends = now, ends - (at - now)
  end
  local s = fresh(key, limit, owner.calendar and max(now, at) or at)
  if owner.calendar and at < s.at then
    n = 0 -- the change was in an earlier period
  end
  local kind = change.units > limit.most and 1 or 0
  change = { at = at, units = change.units, ends = ends, kind = kind }
  if n == 0 then
    s = fresh(key, limit, now)
  else
    if owner.begin then
      owner.begin(s, n)
    else
      take(s, n)
    end
    local begun = copy(s)
    begun.change = change
    advance(s)
    s.begun = begun
  end
  s.change = change
  return s
end

-- changed converts an advanced state to a limit that counts differently. It takes the units of the
-- state's change if nothing was taken since (kind 0 or 1); of kind 2 those that are not back yet,
-- or the units in use if they are more; and without a change the units in use.
local function changed(key, limit, s)
  local used, change = inUse(s), s.change
  local ends = min(now + untilFresh(s), 9007199254740991)
  if not change then
    change = { at = s.asOf, units = used, ends = ends }
  elseif change.kind == 2 then
    local back = min(change.units, limit.most) - inUse(began(key, limit, change))
    local units = max(used, change.units - back)
    change = { at = s.asOf, units = units, ends = max(change.ends, ends) }
  end
  local new = began(key, limit, change)
  new.unwritten = inUse(new) > 0 and new.begun
  if not new.unwritten then
    local old = new.change
    new = fresh(key, limit, now)
    if s.change then
      new.change = old
    end
  end
  new.converted = true
  return new
end

-- isCut reports whether units that an earlier conversion cut off count again under limit. For
-- example 80 of 100 a minute were in use when the limit became 50 an hour: under 90 an hour, 80
-- are in use again.
local function isCut(key, limit, s)
  local change = s.change
  if not change or change.kind == 0 or limit.most <= s.limit.most then
    return false
  end
  local stored = copy(s)
  advance(stored)
  return inUse(began(key, limit, change)) > inUse(stored)
end

-- rebased returns a state that is far ahead, moved to now. No time is credited: a bucket keeps the
-- level of its latest taking, and all units of a window or log count as taken now.
local function rebased(key, s)
  local back, change = fresh(key, s.limit, now), s.change
  s.limit.family.rebase(s, back)
  if change then
    local ahead = max(0, change.at - now)
    back.change = {
      at = change.at - ahead, units = change.units, ends = change.ends - ahead, kind = change.kind,
    }
  end
  back.rebased = copy(back)
  return back
end

-- converted returns a stored state under a limit. If the limit shares the states of the one that
-- wrote it, the state stays as it is. Otherwise the units in use are converted.
converted = function(key, limit, s)
  local from, longest = s.limit, maxStepBack(s.limit)
  if sameState(limit, from) then
    longest = min(longest, maxStepBack(limit)) -- bans with different periods share a state
  end
  if s.at - now > longest then
    if not from.family.calendar or sameState(limit, from) then
      s = rebased(key, s)
    else
      -- The periods of this calendar are unknown: its units count as taken now.
      local new = began(key, limit, { at = now, units = s.a, ends = now + s.b })
      new.rebased, new.converted = copy(new), true
      return new
    end
  end
  if s.ring then
    s.ring.old = from ~= limit
  end
  if from == limit then
    advance(s)
    return s
  elseif sameState(limit, from) and not isCut(key, limit, s) then
    local wait = untilFresh(s)
    if wait <= 0 then -- Redis may have expired it
      local new = fresh(key, limit, now)
      new.rebased, new.change = s.rebased, s.change
      return new
    end
    if limit.family ~= from.family then -- another algorithm of its kind
      advance(s)
      if from.family.plain then
        s.at, s.a, s.b = from.family.plain(s)
      end
      if limit.family.adopt then
        limit.family.adopt(s)
      end
    end
    s.limit = limit
    advance(s)
    local lasts = untilFresh(s)
    s.unwritten = lasts > 0 and lasts ~= wait and s -- its expiry changes
    return s
  end
  advance(s)
  local new = changed(key, limit, s)
  new.rebased = s.rebased
  return new
end
