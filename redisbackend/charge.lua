-- Reads the charges in the arguments of take.lua.

-- The function take of each family in use, by the letter of the algorithm: t token bucket, l leaky
-- bucket, q leaky queue, f fixed, s sliding and n anchored window, k calendar, b ban, g sliding
-- log, d distinct values, c concurrency.
local takeOf = {}

-- readCharge returns the charge of a limit and units:
--
--   text, letter,       the limit: its text without the periods of a calendar, and what it says
--   most, P, Q
--   periods             the starts of periods of a calendar
--   take                of its family
--   isList              the limit is a log, or counts values
--   ends                as family.ends in state.lua: all units come back when a window ends
--   tail                what the reply has behind at, a and b, if the state owes nothing
--   n                   enforced units
--   isFree              there are none, so nothing is denied
--   shadow, lasts, ids  as in the units; nil for none, ids may also be ''
local function readCharge(text, units)
  local tail, ends, periods, R = '', true, nil, nil
  local letter, most, P, Q = match(text, '^1(%a) (%d+) (%d+) (%d+)$')
  if letter == 'f' or letter == 'n' then
    tail = ' 0'
  elseif letter then
    ends = false
  else -- a calendar
    local plain, starts = match(text, '^(.*)~(.*)$')
    text, periods, ends, tail = plain or text, starts, starts ~= nil, starts and ' 0 0' or ''
    letter, most, P, Q, R = match(text, '^1(%a) (%d+) (%d+) (%d+) ?(%d*)$')
    R = tonumber(R)
  end
  most, P, Q = most + 0, P + 0, Q + 0
  -- For a sliding window, take multiplies P by the units of the previous window. Settlements may
  -- raise these to 2 * most. So the product may pass 2^53 if P * most passes 2^52. Buckets with Q
  -- above 1 multiply fractions.
  if not muldiv and (letter == 's' and P * most > 4503599627370000
    or Q > 1 and (letter == 't' or letter == 'l' or letter == 'q')) then
    --- products
  end
  local take = takeOf[letter]
  if not take then -- the file of the family sets it
    --- families
    takeOf[letter] = take
  end
  local charge = {
    text = text, letter = letter, most = most, P = P, Q = Q, take = take, periods = periods, R = R,
    n = tonumber(units), isList = letter == 'g' or letter == 'd', ends = ends, tail = tail,
  }
  if not charge.n then
    local enforced, shadow, lasts, ids = match(units, '^(%d*),?(%d*)@?(%d*)#?(.*)$')
    charge.n, charge.isFree = tonumber(enforced) or 0, enforced == ''
    charge.shadow, charge.lasts, charge.ids = tonumber(shadow), tonumber(lasts), ids
  end
  return charge
end
