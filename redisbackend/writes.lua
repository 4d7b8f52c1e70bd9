-- Writes the texts of keys. A request alone writes at once. take.lua writes at the end what several
-- requests have changed. After changes of the keys x and y:
--
--   writes   { 'x', text, expiry, 'y', text, expiry }; last is 6, its length
--   written  { x = 2, y = 5 }, where the texts are
--
-- But write in state.lua writes logs, values and concurrency limits at once. After the next request
-- has made the bucket x a log:
--
--   writes   { 'x', false, expiry, 'y', text, expiry }: the end does not write x
--   written  { y = 5 }
--   texts    {}, since they may be out of date: later requests read their keys again
local writes, last, written
if not isAlone then
  writes, last, written = {}, 0, {}
end

-- writeText writes the text of a key.
local function writeText(key, text, expiry)
  if not written then
    redis.call('SET', key, text, 'PX', expiry)
    return
  end
  local k = written[key]
  if not k then
    k, last = last + 2, last + 3
    written[key] = k
  end
  writes[k - 1], writes[k], writes[k + 1] = key, text, expiry
end

-- encode returns the text of a state: see state.lua.
local function encode(limit, at, a, b)
  return limit .. (b > 0 and format(wholes, at, a, b) or format(pair, at, a))
end
