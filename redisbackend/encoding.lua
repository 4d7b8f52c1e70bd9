-- How states are written: numbers, expiries, and the states of buckets and windows.

-- digits returns n in full. Several states of one call have the same instants.
local texts = {}
local function digits(n)
  if n < 2147483648 then
    return format('%d', n) -- 31 bits are enough on every server, and quicker
  end
  local text = texts[n]
  if not text then
    text = format('%.0f', n)
    texts[n] = text
  end
  return text
end

-- expiry returns the milliseconds after which Redis deletes a state that is fresh
-- after a wait.
local function expiry(wait)
  return digits(floor((wait + 999) / 1000) + grace)
end

-- numbersLayout is what follows the limit in the state of a bucket or window: at, a
-- and b.
local numbersLayout = ' (%d+) (%d+) (%d+)$'

-- decodeNumbers returns the state in text, nil if it was written under another limit,
-- false if the limit cannot have written it.
local function decodeNumbers(limit, text)
  local at, a, b = match(text, limit.pattern)
  if not at then
    return nil
  end
  local s = { asOf = 0, at = at + 0, a = a + 0, b = b + 0 }
  return limit.sound and max(s.at, s.a, s.b) < 9007199254740992 and limit.family.possible(limit, s) and s
end

-- put writes the text of a state.
local function put(key, text, wait)
  redis.call('SET', key, text, 'PX', expiry(wait))
end

-- writeNumbers writes the state of a bucket or window. more is what only version 2 has
-- besides the serial, nil if there is nothing.
local function writeNumbers(key, limit, s, wait, more)
  local text = limit.text .. ' ' .. digits(s.at) .. ' ' .. digits(s.a) .. ' ' .. digits(s.b)
  if more or s.serial then
    text = '2' .. sub(text, 2) .. ';' .. digits(s.serial or 0) .. (more and ' ' .. more or '')
  end
  put(key, text, wait)
end

-- keep writes a state from which units were returned, as of its latest taking: only
-- takings keep a state where it is when the clock steps back. An empty one is deleted.
local function keep(key, limit, s, empty)
  if empty then
    redis.call('DEL', key)
  else
    limit.family.write(key, limit, s, max(0, limit.family.untilFresh(limit, s)))
  end
end

-- owedAfter returns what is left of a debt at the start of the n-th window after the one
-- that made it: each takes as many units off it as its maximum.
local function owedAfter(limit, debt, n)
  if debt == 0 or n - 1 > floor(debt / limit.most) then
    return 0
  end
  return max(0, debt - (n - 1) * limit.most)
end

-- windowsUntilFits returns the least number of windows after which n units, at most the
-- maximum, fit on top of what is left of a debt. After 200 years it is forgiven: only a
-- limit that was lowered far below a debt takes longer.
local function windowsUntilFits(limit, debt, n)
  return 1 + max(0, min(floor((debt + n - 1) / limit.most), floor(6311520000000000 / limit.P)))
end

-- A serial tells a state from others that its key has had, also at the same instant. It
-- comes from the server's clock: two within 131 ms are never equal. One script may need
-- several.
local serials, latestSerial = 131072
local function newSerial()
  if not latestSerial then
    local time = redis.call('TIME')
    latestSerial = time[1] * 1000000 + time[2]
  end
  latestSerial = latestSerial + 1
  return latestSerial % (serials - 1) + 1
end
