-- Reads the charges in the arguments of take.lua.

-- The family of each algorithm in use, by its letter.
local families = {}
if family then -- take.lua has found that of the only charge
  families[letter] = family
end

-- readCharge returns the charge of a limit and units. If take.lua has read the limit, text is that
-- of states, and what else it has read follows.
-- The fields are
--
--   text, most, P, Q    the limit: its text in states, and what it says
--   periods             the starts of periods of a calendar
--   more                these, or the further number of the limit: see state.lua
--   family              its family
--   n                   enforced units
--   isFree              there are none, so nothing is denied
--   shadow, lasts, ids  as in the units; nil for none, ids may also be ''
local function readCharge(text, units, letter, most, P, Q)
  local periods, more
  if not letter then
    text, letter, most, P, Q, more, periods =
      match(text, '^((%a)%S+) (%d+) (%d+) (%d+) ?(%d*)~?(.*)$')
    periods = periods ~= '' and periods
    more = periods or tonumber(more)
  end
  most, P, Q = most + 0, P + 0, Q + 0
  local family = families[letter]
  if not family then -- the file of the family sets it
    --- families
    families[letter] = family
  end
  -- Products of P and units pass 2^53 only if P * most passes 2^52: settlements may raise units to
  -- 2 * most.
  if family.products and P * most > 4503599627370000 and not muldiv then
    --- products
  end
  local charge = {
    text = text, most = most, P = P, Q = Q, family = family, periods = periods, more = more,
    n = tonumber(units),
  }
  if not charge.n then
    local enforced, shadow, lasts, ids = match(units, '^(%d*),?(%d*)@?(%d*)#?(.*)$')
    charge.n, charge.isFree = tonumber(enforced) or 0, enforced == ''
    charge.shadow, charge.lasts, charge.ids = tonumber(shadow), tonumber(lasts), ids
  end
  return charge
end
