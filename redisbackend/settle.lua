-- Ends takings: returns units that they have not cost in the end, and charges what they
-- have cost above. Of each key in turn, so that a key may be there several times.
--
-- KEYS   the keys
-- ARGV   the number of the call; for each key:
--          the limit under which was taken, as in a state
--          "r ", the units to return, those that the taking has cost, its instant modulo
--          2^46, or of sliding windows the number of its window, and the serial of the
--          state that it left; or
--          "g ", the units to give back, all that were taken, 0, and the instant of the reply
--          to the taking, of queues that at which its units have drained; or
--          "c ", the units to charge and for how long the taking was to last
--        then the instant in microseconds since the Unix epoch, if not the server's
-- reply  that number; for each key how many units fewer it has in use now, or how many were charged; of a
--        give-back how many were returned; -1 if logs before it were so much work that it is to be sent
--        again; or an error, as that of take.lua, if its state cannot be read or written

-- inUseNow returns how many units of a stored state are in use now, those that a bucket has drained
-- in part included.
local function inUseNow(stored)
  local s = copy(stored)
  advance(s)
  return inUse(s)
end

-- isDoubtful reports whether a ring may give back too much of a taking whose reply had the instant at. If the
-- clock had stepped back by then, the units count from a later instant, perhaps of another slice.
local function isDoubtful(s, at)
  return s.ring and floor(at / s.ring.width) ~= floor(s.at / s.ring.width)
end

-- refund returns units; final and serial are nil for a give-back. A state that is gone or
-- fresh has none to return, nor has one that was begun, converted or rebased since.
local function refund(key, limit, n, final, ticket, serial)
  local s = read(key, limit)
  if not s then
    return s == nil and 0
  end
  local from = s.limit
  if not sameState(limit, from) or serial and serial ~= s.serial or untilFresh(s) <= 0 then
    return 0
  elseif not final and isDoubtful(s, ticket) then
    return 0
  end
  if serial and from.letter == 's' then
    ticket = ticket * from.P
  elseif serial then -- the instant that is nearest to the state
    ticket = s.at + (ticket - s.at + 35184372088832) % 70368744177664 - 35184372088832
  end
  local returnUnits = from.family.refund
  if not final or from.letter == 'g' then
    return returnUnits(s, n, final, ticket)
  end
  local before = inUseNow(s)
  returnUnits(s, n, final, ticket)
  return min(n, before - inUseNow(s)) -- what has drained or faded has come back by itself
end

-- charge charges units whether they fit or not, as many as may be owed. A live state under
-- another limit stays as it is: what has ended must not undo what was taken since.
local function charge(key, limit, n, lasts)
  local s, owner = load(key, limit), limit.family
  if not s then
    return false
  end
  if s.rebased then
    write(s.rebased)
  end
  if s.converted then
    return 0
  end
  if owner.note then
    owner.note(s, lasts)
  end
  n = owner.owe(s, n)
  if n == 0 then
    return 0
  end
  if limit.letter == 'q' then
    s.serial = nil -- no taking is the last any more
  end
  noteTaken(s)
  write(s)
  return n
end

local function settle(key, limit, what)
  local kind, a, b, c, d = match(what, '^(%a) (%d+) (%d+) ?(%d*) ?(%d*)$')
  if kind ~= 'c' then
    return refund(key, limit, tonumber(a), kind == 'r' and tonumber(b) or nil, tonumber(c), tonumber(d))
  end
  return charge(key, limit, tonumber(a), tonumber(b))
end

local reply = { ARGV[1] }
for i = 1, #KEYS do
  reply[i + 1] = ' -1'
  if work < 500 then
    local fine, n = pcall(settle, KEYS[i], limitOf(ARGV[2 * i]), ARGV[2 * i + 1])
    if fine and n then
      reply[i + 1] = ' ' .. digits(n)
    else
      reply[i + 1] = errorOf(fine and unreadable or n)
    end
  end
end
return table.concat(reply)
