-- The states that take.lua does not read itself.

-- told returns what a reply says of a state.
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

-- waitsOf returns what a reply says of a log besides: how long the charges of a request wait that found
-- a units in use.
waitsOf = function(s, by, a, allowed, takes)
  local text, used, wait = '', a, s.limit.family.wait
  for _, n in ipairs({ by.n, by.shadow }) do
    if n > 0 and used + n > by.most then
      text = text .. ' ' .. digits(wait(s, used, n))
    else
      text = text .. ' ' .. digits(wait(s, takes and used + n or a, 1))
      used = allowed and used + n or used
    end
  end
  return text
end

-- stateOf returns the state of the key of a charge, and what a reply says of it. text is that of
-- state.lua's read.
stateOf = function(key, by, text, takes)
  local s = load(key, limitOf(by.periods and by.text .. '~' .. by.periods or by.text), text)
  if not s then
    error(unreadable, 0)
  end
  if takes then -- for denied requests too: otherwise nothing would drain between them
    if s.unwritten then
      write(s.unwritten)
    elseif s.rebased then
      write(s.rebased)
    end
  end
  return s, told(s)
end
