-- Decides the requests that the first part of take.lua leaves.

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
local function stateOf(k, limit, mode)
  local key = keys[k]
  local text = written and writes[written[key]]
  if text == nil then
    text = only
    if texts then
      text = texts[k]
    end
  end
  local s = load(key, limit, text)
  if not s then
    error(unreadable, 0)
  end
  if mode ~= 'peek' then -- for denied requests too: otherwise nothing would drain between them
    if s.unwritten then
      write(s)
    elseif s.rebased then
      write(s.rebased)
    end
  end
  return s
end

-- told returns what the reply says of a state that a request finds.
local function told(s, by, takes)
  local owner, most = s.limit.family, s.limit.most
  if not owner.wait then
    local text = format(wholes, s.at, s.a, s.b)
    if owner.ends then
      text = text .. ' ' .. digits(s.debt or 0)
    end
    return owner.next and text .. ' ' .. digits(owner.next(s)) or text
  end
  local text, used = ' ' .. digits(s.at) .. ' ' .. digits(s.a), s.a
  for _, n in ipairs({ by.n, by.shadow }) do
    local wait
    if n > 0 and used + n > most then
      wait = owner.wait(s, used, n)
    else
      wait = owner.wait(s, takes and used + n or s.a, 1)
      used = used + n
    end
    text = text .. ' ' .. digits(wait)
  end
  return text
end

-- add takes n units, which fit, of a charge that lasts; nil if it does not.
local function add(s, n, lasts)
  if n == 0 then
    return
  end
  if not s.changed and (lasts or s.ring or s.serial) then
    local owner = s.limit.family
    if owner.note then
      owner.note(s, lasts or 0)
    end
    if s.limit.letter == 'q' then
      s.serial = nil -- of a queue only the latest taking is ever returned
    end
    if lasts and not s.serial then
      s.serial = newSerial()
    end
  end
  noteTaken(s)
  take(s, n)
  s.changed = true
end

-- decide decides a request, takes its units, and returns what the reply says. It sets its states.
local function decide(charges, states, mode, request)
  local allowed = true
  for j, by in ipairs(charges) do
    local s = stateOf(place + j, by.limit, mode)
    states[j] = s
    allowed = allowed and (not by.enforces or step(s, by.n))
  end
  local takes, text = allowed and mode ~= 'peek', allowed and ' 1' or ' 0'
  for j, by in ipairs(charges) do
    local s = states[j]
    text = text .. told(s, by, takes)
    if takes then
      s.firstID = sub(by.ids, 12 * request - 11, 12 * request)
      add(s, by.n, by.lasts)
      if by.shadow and step(s, by.shadow) then
        add(s, by.shadow, by.lasts)
      end
    end
    if by.lasts then
      text = text .. (s.changed and format(' %d', s.serial) or ' 0')
    end
  end
  return text
end

return function(i, mode, size, request)
  local states = {}
  local fine, text = pcall(decide, chargesOf(i, size), states, mode, request)
  if not fine then
    return errorOf(text)
  end
  for j = 1, size do
    if states[j].changed then
      write(states[j])
    end
  end
  return text
end
