-- Reads states that quick_read.lua does not read.

-- told returns the numbers of a state in a reply.
local function told(s)
  local owner = s.limit.family
  if not owner.wait then
    local text = format(wholes, s.at, s.a, s.b)
    if owner.ends then
      text = text .. ' ' .. digits(s.debt or 0)
    end
    return owner.next and text .. ' ' .. digits(owner.next(s)) or text
  end
  return ' ' .. digits(s.at) .. ' ' .. digits(s.a)
end

-- waitsOf returns the waits of a log or of values in a reply, for a request that found a units in
-- use.
waitsOf = function(s, charge, a, allowed, takes)
  if s.limit.family.waits then
    return s.limit.family.waits(s, charge, a, takes)
  end
  local text, used, wait = '', a, s.limit.family.wait
  for _, n in ipairs({ charge.n, charge.shadow }) do
    if n > 0 and used + n > charge.most then
      text = text .. ' ' .. digits(wait(s, used, n))
    else
      text = text .. ' ' .. digits(wait(s, takes and used + n or a, 1))
      used = allowed and used + n or used
    end
  end
  return text
end

-- stateOf returns the state of the key of a charge, and its numbers in a reply. text is the
-- argument of read in state.lua.
stateOf = function(key, charge, text, takes)
  charged = charge.ids
  local limit = charge.periods and charge.text .. '~' .. charge.periods or charge.text
  local s = load(key, limitOf(limit), text)
  if not s then
    error(unreadable, 0)
  end
  if takes then -- even if the request is denied: otherwise nothing would drain
    if s.unwritten then
      write(s.unwritten)
    elseif s.rebased then
      write(s.rebased)
    end
  end
  return s, told(s)
end
