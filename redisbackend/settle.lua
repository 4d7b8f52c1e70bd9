-- Ends takings: refunds units that they did not cost in the end, and charges units that they cost
-- in addition. It handles its keys one after the other, so a key may occur several times.
--
-- KEYS   the keys
-- ARGV   the number of the call
--        for each key the limit of the taking, as in take.lua, and one of
--          "r " returned " " cost " " at " " serial
--                 the units to return, and those that the taking did cost; its instant modulo 2^46,
--                 or what takenAt of its family reads; the serial of its state. For a
--                 limit that counts values, the whole instant and the digest of the value
--          "g " taken " 0 " at
--                 a give-back of all units; the instant in the reply to the taking, or for a queue
--                 the instant at which the units have drained; for a limit that counts values, a
--                 space and the digest of the value follow
--          "c " units " " lasts
--                 the units to charge, and for how long the taking was to last
--        the instant in microseconds since the Unix epoch, if the server's clock does not decide
-- reply  the number of the call
--        for each key how many units fewer are in use now (r), were returned (g) or charged (c);
--        -1 if logs were so much work that the key must be sent again;
--        or an error as in take.lua if its state cannot be read or written

-- inUseNow returns how many units of a stored state are in use now. A unit that has drained in
-- part counts as in use.
local function inUseNow(stored)
  local s = copy(stored)
  advance(s)
  return inUse(s)
end

-- isDoubtful reports whether a ring might give back too much of a taking whose reply had the
-- instant at. If the clock had stepped back by then, the units count from a later instant, perhaps
-- of another slice.
local function isDoubtful(s, at)
  return s.ring and floor(at / s.ring.width) ~= floor(s.at / s.ring.width)
end

-- refund returns units to a key. final and serial are nil for a give-back. It returns 0 if the
-- state is gone or fresh, or has begun or was converted or rebased since the taking.
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
  local owner = from.family
  if serial and owner.takenAt then
    ticket = owner.takenAt(s, ticket)
  elseif serial then -- of all instants with these 46 bits, the one nearest to the state
    ticket = s.at + (ticket - s.at + 35184372088832) % 70368744177664 - 35184372088832
  end
  if not final or owner.lists then
    return owner.refund(s, n, final, ticket)
  end
  local before = inUseNow(s)
  owner.refund(s, n, final, ticket)
  return min(n, before - inUseNow(s)) -- what has drained came back by itself
end

-- charge charges units whether they fit or not, as many as may be owed. A live state under another
-- limit stays as it is: an ending must not undo later takings.
local function charge(key, limit, n, lasts)
  local s, owner = load(key, limit), limit.family
  if not s then
    return false
  end
  if s.rebased then
    write(s.rebased)
  end
  if s.converted and inUse(s) > 0 then
    return 0
  end
  if owner.note then
    owner.note(s, lasts)
  end
  n = owner.charge(s, n)
  if n == 0 then
    return 0
  end
  if owner.queues then
    s.serial = nil -- no taking is the latest any more
  end
  noteTaken(s)
  write(s)
  return n
end

-- settle carries out an ending, and returns how many units; false if the state cannot be read.
local function settle(key, limit, ending)
  local kind, n, other, at, serial = match(ending, '^(%a) (%d+) (%d+) ?(%d*) ?(%x*)$')
  if limit.family.values then
    charged, serial = serial, nil
  end
  if kind == 'c' then
    return charge(key, limit, tonumber(n), tonumber(other))
  end
  local final = kind == 'r' and tonumber(other) or nil
  return refund(key, limit, tonumber(n), final, tonumber(at), tonumber(serial))
end

local reply = { ARGV[1] }
for i = 1, #KEYS do
  reply[i + 1] = ' -1'
  if work < 500 then
    local name, periods = match(ARGV[2 * i], '^(%S+)[^~]*(.*)$')
    local fine, n = pcall(settle, KEYS[i], limitOf(name .. periods), ARGV[2 * i + 1])
    if fine and n then
      reply[i + 1] = ' ' .. digits(n)
    else
      reply[i + 1] = errorOf(fine and unreadable or n)
    end
  end
end
return table.concat(reply)
