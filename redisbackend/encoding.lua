-- How states are written: numbers, expiries, and the states of all families but sliding logs
-- and concurrency limits.

local min, max = math.min, math.max
local families = {} -- functions of states that few requests need, by families: see state.lua

-- work is how long, in microseconds, this script has worked on what is long, about: logs, and many units that
-- are held. Once it is 500, what can wait is left for another script.
local work = 0

local function ceil(us, frac)
  return frac > 0 and us + 1 or us
end

-- digits returns n in full.
local function digits(n)
  return format('%.0f', n)
end

-- errorOf returns what was raised as a part of a reply. Clients have types for some errors, and leave
-- the rest of a reply unread behind one of them.
local function errorOf(why)
  why = type(why) == 'table' and why.err or why
  if match(why, 'WRONGTYPE') then
    why = 'WEIR a key holds a value of another type: another program uses the prefix; reset the key or delete it'
  end
  return { err = match(why, '^WEIR') and why or 'ERR ' .. why }
end

-- expiry returns the milliseconds after which Redis deletes a state that is fresh
-- after a wait.
local function expiry(wait)
  return digits(floor((max(0, wait) + 999) / 1000) + grace)
end

-- put writes the text of a state that is fresh after a wait: at the end, if a script has
-- several requests.
local function put(key, text, wait)
  if not written then
    redis.call('SET', key, text, 'PX', expiry(wait))
    return
  end
  local place = written[key]
  if not place then
    place, last = last + 2, last + 3
    written[key] = place
  end
  writes[place - 1], writes[place], writes[place + 1] = key, text, expiry(wait)
end
