-- Decides the requests that the first part of take.lua leaves.

-- add decides n units of a state, which are taken if the request is allowed. With before, what
-- there is without them is part of the answer.
local function add(s, n, lasts, mode, allowed, before)
  local limit = s.limit
  local fits, left, reset, window = step(s, n)
  local delay, at, serial = 0, 0, 0
  if allowed and fits and n > 0 then
    if limit.algorithm == 'q' and s.next.extra > 0 then
      delay = s.asOf - now + s.next.extra
    end
    if s.lasts then
      local note = familyOf(limit).note
      if note then
        note(s, s.lasts)
      end
      if limit.algorithm == 'q' then
        s.serial = nil -- of a queue only the latest taking is ever returned
      end
      if lasts and not s.serial then
        s.serial = newSerial()
      end
      s.lasts = nil
    end
    take(s, n)
    s.changed = mode ~= 'peek'
    at, serial = limit.algorithm == 's' and s.at / limit.P or s.asOf, s.serial or 0
  end
  if before then
    left, reset = before[1], before[2]
    window = fits and before[3] or window
  end
  if not fits then
    window = window < 0 and -9007199254740991 or -window
  end
  reply[length + 1], reply[length + 2], reply[length + 3] = left, reset, window
  length = length + 3
  if limit.algorithm == 'q' then
    length = length + 1
    reply[length] = delay
  end
  if lasts then
    reply[length + 1], reply[length + 2] = at, serial
    length = length + 2
  end
end

-- chargesOf returns what a request charges, whose arguments are those after the i-th.
local parsed = {}
local function chargesOf(i, size)
  local charges = parsed[i]
  if not charges then
    charges = {}
    for j = 1, size do
      local n, shadow, lasts, ids = match(argv[i + 2 * j], '^(%d*),?(%d*)@?(%d*)#?(.*)$')
      charges[j] = {
        limit = limitOf(argv[i + 2 * j - 1]), n = tonumber(n) or 0, enforces = n ~= '',
        shadow = tonumber(shadow), lasts = tonumber(lasts), ids = ids,
      }
    end
    parsed[i] = charges
  end
  return charges
end

-- stateOf returns the state of the key of a charge, which is the place-th.
local function stateOf(place, charge, mode)
  local key = keys[place]
  local text = written and writes[written[key]]
  if text == nil then
    text = texts[place]
  end
  local s = load(key, charge.limit, text)
  if not s then
    error(unreadable, 0)
  end
  if s.rebased and mode ~= 'peek' then -- for denied requests too: otherwise it would not drain between them
    write(s.rebased, untilFresh(s.rebased))
  end
  return s
end

-- decideStates decides equal requests, so many rounds of them at most. It sets their states, and returns how
-- many it decided and whether all were allowed.
local function decideStates(charges, states, mode, rounds, size, request)
  local decided, allowed = 0, true
  for j = 1, size do
    states[j] = stateOf(at + j, charges[j], mode)
  end
  while allowed and decided < rounds do
    for j = 1, size do
      local by, s = charges[j], states[j]
      if s.ahead and s.changed then
        write(s, untilFresh(s))
        s = stateOf(at + j, by, mode)
        states[j] = s
      end
      allowed = allowed and (not by.enforces or step(s, by.n))
    end
    for j = 1, size do
      local by, s, before = charges[j], states[j], nil
      if not allowed or mode == 'peek' then
        local _
        before = {}
        _, before[1], before[2], before[3] = step(s, 0)
      end
      s.lasts = nil -- until it is noted what the charges find
      if (by.lasts or s.ring or s.serial) and mode ~= 'peek' then
        s.lasts = by.lasts or 0
      end
      if by.ids ~= '' then
        local id = 12 * ((request - 1) * rounds + decided)
        s.nextID = sub(by.ids, id + 1, id + 12)
      end
      add(s, by.n, by.lasts, mode, allowed, before)
      if by.shadow then
        add(s, by.shadow, by.lasts, mode, allowed, before)
      end
    end
    decided = decided + 1
  end
  return decided, allowed
end

decideGenerally = function(i, mode, rounds, size, request)
  local states, countAt = {}, length + 1
  length = countAt
  reply[countAt] = 0
  local fine, decided, allowed = pcall(decideStates, chargesOf(i, size), states, mode, rounds, size, request)
  if not fine then
    for k = countAt + 1, length do
      reply[k] = nil
    end
    length, reply[countAt] = countAt, { err = type(decided) == 'table' and decided.err or decided }
    return
  end
  reply[countAt] = allowed and decided or -decided
  for j = 1, size do
    if states[j].changed then
      write(states[j], untilFresh(states[j]))
    end
  end
end
