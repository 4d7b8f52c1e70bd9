-- Reads most states: the charged limit wrote them, and the clock has not stepped back since.
-- state.lua, which reads all others, is long and slow. An absent key has used nothing.

-- quickRead returns the state of a key: its text in a reply, its numbers, its serial, its ring. It
-- returns nil if state.lua has to read the state. text is as in texts: see take.lua.
local function quickRead(charge, key, text, takes)
  local family = charge.family
  if family.held then
    if takes and (charge.n ~= 1 or charge.shadow or (string.byte(charge.ids) or 0) >= 66) then
      return nil -- take.lua adds one unit, state.lua several and those that are lent
    end
    -- No unit may be past its end, and none may end later than one that is taken now.
    local held, latest = redis.pcall('ZCARD', key), format(whole, now + charge.P)
    if held ~= 0 and held ~= redis.pcall('ZCOUNT', key, '(' .. nowText, latest) then
      return nil
    end
    return format(' 0 %d 0', held), 0, held, 0
  elseif family.lists or text == nil then
    return nil
  elseif not text then -- the key does not exist, or has another type
    if isSure == nil then
      local names = {}
      for k = 1, #keys do
        names[#names + 1] = not texts[k] and keys[k] or nil
      end
      isSure = redis.call('EXISTS', unpack(names)) == 0 -- of all such keys of the call
    end
    if isSure or redis.pcall('GETRANGE', key, '0', '0') == '' then -- it does not exist
      return ' 0 0 0', 0, 0, 0
    end
    return nil
  elseif #text >= 512 then -- no such state is so long
    return nil
  end

  local length = #charge.text
  local state, at, a, b, more = match(text, '^( (%d+) (%d+)( ?%d*))(.*)$', length + 1)
  if b == '' then
    state, b = state .. ' 0', 0
  else
    b = tonumber(b)
  end
  if not b or at + 0 > now or sub(text, 1, length) ~= charge.text then
    return nil
  end
  at, a = at + 0, a + 0
  if more == '' then
    return state, at, a, b
  end

  -- A "+" and a serial up to 131,071, 0 for none, and perhaps more: the ring of a bucket, or the
  -- debt of a window, which state.lua reads.
  local serial
  serial, more = match(more, '^%+(%d+) ?([%d -]*)$')
  serial = tonumber(serial)
  if not serial or serial >= 131072 then
    return nil
  elseif more == '' then
    if serial == 0 then
      return nil
    end
    return state, at, a, b, serial
  elseif not family.rings then
    return nil
  end
  if not decodeRing then
    --- bucket_ring
  end
  local ring = decodeRing(more)
  return ring and state, at, a, b, serial > 0 and serial or nil, ring
end
