-- Stored states of other limits, and those that are far ahead of the clock.

-- maxStepBack returns the longest step back of a clock during which a state stays at its latest taking.
local function maxStepBack(limit)
  return limit.family.drains and 1000000 or max(1000000, limit.P)
end

-- began returns, as of now, the state of a key that took the units of a change at its instant, as many
-- as the maximum. A change that is far ahead is rebased, like a state. begun is the same as of that instant.
local function began(key, limit, change)
  local owner, n = limit.family, min(change.units, limit.most)
  local at, ends = change.at, change.ends
  if at - now > maxStepBack(limit) then
    at, ends = now, ends - (at - now)
  end
  local s = fresh(key, limit, owner.calendar and max(now, at) or at)
  if owner.calendar and at < s.at then
    n = 0 -- in a period before
  end
  change = { at = at, units = change.units, ends = ends, kind = change.units > limit.most and 1 or 0 }
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

-- changed returns an advanced state under a limit that counts otherwise.
local function changed(key, limit, s)
  local used, change = inUse(s), s.change
  local ends = min(now + untilFresh(s), 9007199254740991)
  if not change then
    change = { at = s.asOf, units = used, ends = ends }
  elseif change.kind == 2 then
    local gone = min(change.units, limit.most) - inUse(began(key, limit, change))
    change = { at = s.asOf, units = max(used, change.units - gone), ends = max(change.ends, ends) }
  end
  local new = began(key, limit, change)
  new.converted = used > 0 or s.change ~= nil
  new.unwritten = inUse(new) > 0 and new.begun
  if not new.unwritten then
    local old = new.change
    new = fresh(key, limit, now)
    if s.change then
      new.change = old
    end
    new.converted = used > 0 or s.change ~= nil
  end
  return new
end

-- isCut reports whether a state of the same counting was converted to a smaller maximum than that of a
-- limit, and its change says that more is in use.
local function isCut(key, limit, s)
  local change = s.change
  if not change or change.kind == 0 or limit.most <= s.limit.most then
    return false
  end
  local stored = copy(s)
  advance(stored)
  return inUse(began(key, limit, change)) > inUse(stored)
end

-- rebased returns a state that is far ahead as of now. No time is credited: a bucket keeps the level of
-- its latest taking, and the units that a window or log has then count as taken now.
local function rebased(key, s)
  local back, change = fresh(key, s.limit, now), s.change
  s.limit.family.rebase(s, back)
  if change then
    local ahead = max(0, change.at - now)
    back.change = { at = change.at - ahead, units = change.units, ends = change.ends - ahead, kind = change.kind }
  end
  back.rebased = copy(back)
  return back
end

-- converted returns a stored state under a limit. If it is stored under another one, the two may be the
-- same state; otherwise the units in use are converted.
converted = function(key, limit, s)
  local from, longest = s.limit, maxStepBack(s.limit)
  if sameState(limit, from) then
    longest = min(longest, maxStepBack(limit)) -- that of a ban is its period
  end
  if s.at - now > longest then
    if not from.family.calendar or sameState(limit, from) then
      s = rebased(key, s)
    elseif not limit.family.bans then
      -- A calendar whose periods are not known: its units count as taken now under the other limit.
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
    if wait <= 0 then -- Redis may have dropped it
      local new = fresh(key, limit, now)
      new.rebased, new.change = s.rebased, s.change
      return new
    end
    s.limit = limit
    advance(s)
    local lasts = untilFresh(s)
    s.unwritten = lasts > 0 and lasts ~= wait and s -- from now on it lasts as long as limit says
    return s
  end
  advance(s)
  local new
  if limit.family.bans or from.family.bans then -- the units of a ban are not those of a rate
    new = fresh(key, limit, now)
    new.converted = untilFresh(s) > 0 or s.change ~= nil
  else
    new = changed(key, limit, s)
  end
  new.rebased = s.rebased
  return new
end
