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
      if note and not s.isNoted then
        note(s, s.lasts)
        s.isNoted = true
      end
      if limit.algorithm == 'q' then
        s.serial = nil -- of a queue only the latest taking is ever returned
      end
      if lasts and not s.serial then
        s.serial = newSerial()
      end
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

-- stateOf returns the state of the key of a charge, which is the k-th.
local function stateOf(k, charge, mode)
  local key = keys[k]
  local text = written and writes[written[key]]
  if text == nil then
    text = texts and texts[k]
  end
  local s = load(key, charge.limit, text)
  if not s then
    error(unreadable, 0)
  end
  if mode ~= 'peek' then -- for denied requests too: otherwise nothing would drain between them
    if s.unwritten then
      write(s, untilFresh(s))
    elseif s.rebased then
      write(s.rebased, untilFresh(s.rebased))
    end
  end
  return s
end

-- decideStates decides a request, and sets its states.
local function decideStates(charges, states, mode, size, request)
  local allowed = true
  for j = 1, size do
    local by, s = charges[j], stateOf(place + j, charges[j], mode)
    states[j] = s
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
      s.nextID = sub(by.ids, 12 * request - 11, 12 * request)
    end
    add(s, by.n, by.lasts, mode, allowed, before)
    if by.shadow then
      add(s, by.shadow, by.lasts, mode, allowed, before)
    end
  end
end

decideGenerally = function(i, mode, size, request)
  local states, start = {}, length
  local fine, why = pcall(decideStates, chargesOf(i, size), states, mode, size, request)
  if not fine then
    for k = start + 2, #reply do -- take.lua may have begun to decide it
      reply[k] = nil
    end
    length = start + 1
    reply[length] = errorOf(why)
    return
  end
  for j = 1, size do
    if states[j].changed then
      write(states[j], untilFresh(states[j]))
    end
  end
end
