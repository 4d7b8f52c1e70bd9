-- Distinct values. A key has the values that it has had within the period, the one that it had
-- last at the end.
--
--   state    limit " " values
--   value    digest kind at      33 characters
--
-- A digest is sixteen hexadecimal digits, an instant sixteen digits. The kind is "+" if only the
-- request had the value for which it was new, and otherwise "=".
--
-- In memory:
--
--   at       the instant of the latest value
--   a        how many there are
--   b        1 if the value that is charged is one of them, otherwise 0
--   values   their texts
--   charged  the digest of the value that is charged
--   isTaken  that value was taken: write adds it, or its new instant
--   place    where the text of that value is, before this script takes it; nil: nowhere

family = {
  lists = true,
  decide = function(most, P, _, asOf, at, a, b, n)
    local fits = n == 0 or b > 0 or a < most
    if fits and n > 0 then
      at, a, b = asOf, b > 0 and a or a + 1, 1
    end
    return fits, at, a, b, a > 0 and at > asOf - P and at - asOf + P or 0
  end,
}

if states then
  family.kind, family.values = 'values', true

  local width = 33 -- of the text of a value
  local mostValues = 1000
  local form = '^' .. string.rep('%x', 16) .. '[+=]' .. string.rep('%d', 16) .. '$'

  local function instantOf(s, i)
    local text = sub(s.values, width * i - 15, width * i)
    if not match(text, '^%d+$') then
      error(unreadable, 0)
    end
    return tonumber(text)
  end

  -- find finds the value that is charged: it sets charged, place and b.
  local function find(s)
    local place = charged and string.find(s.values, charged, 1, true)
    while place and place % width ~= 1 do
      place = string.find(s.values, charged, place + 1, true)
    end
    s.charged, s.place, s.b = charged, place, place and 1 or 0
  end

  -- drop drops the values that do not count any more.
  local function drop(s, asOf)
    local low, high = 1, s.a + 1
    while low < high do
      local middle = floor((low + high) / 2)
      if asOf - instantOf(s, middle) < s.limit.P then
        high = middle
      else
        low = middle + 1
      end
    end
    s.values, s.a = sub(s.values, width * (low - 1) + 1), s.a - low + 1
  end

  local function open(s)
    s.at, s.a, s.values = s.asOf, 0, ''
    find(s)
  end

  family.open = open

  -- decode drops what has left under the limit that it was written under: another may be longer.
  family.decode = function(s, text)
    local start = match(text, '^' .. s.limit.text .. ' ()')
    if not start then
      return nil
    end
    s.values = sub(text, start) .. (#text < 1024 and '' or redis.call('GETRANGE', s.key, #text, -1))
    s.a = #s.values / width
    if s.change or s.a < 1 or s.a > mostValues or s.a ~= floor(s.a)
      or not match(sub(s.values, 1, width), form) or not match(sub(s.values, -width), form) then
      return false
    end
    work = work + s.a / 4
    s.at, s.b = instantOf(s, s.a), 0
    local first = instantOf(s, 1)
    if first > s.at or s.at >= 9007199254740992 then
      return false
    end
    drop(s, max(now, s.at))
    return true
  end

  family.advance = function(s)
    drop(s, s.asOf)
    if s.a == 0 then
      open(s)
    end
    find(s)
  end

  family.rebase = function(s, back)
    local instant, values = format('%016.0f', now), {}
    for i = 1, s.a do
      values[i] = sub(s.values, width * i - 32, width * i - 16) .. instant
    end
    back.values, back.a = table.concat(values), s.a
    find(back)
  end

  -- waits returns how long the charges of a request wait that found a values: those that are
  -- denied for the oldest to leave, and others for a new one to fit, if none does.
  family.waits = function(s, charge, a, takes)
    local text, used, isKnown, skipped = '', a, s.place ~= nil, nil
    for _, n in ipairs({ charge.n, charge.shadow }) do
      if takes and n > 0 and (isKnown or used < charge.most) then
        skipped = s.place and (s.place - 1) / width + 1 -- it is the last one then
        used, isKnown = isKnown and used or used + 1, true
      end
      local i, wait = used + 1 - charge.most, 0
      if i > 0 then
        i = skipped and i >= skipped and i + 1 or i
        wait = s.limit.P + (i > a and 0 or instantOf(s, i) - s.asOf)
      end
      text = text .. ' ' .. digits(wait)
    end
    return text
  end

  -- write writes what is there, with the value that is charged at the end if it was taken.
  local function write(s, wait)
    local start, values = s.limit.text .. ' ', s.values
    if not s.isTaken then
      values = start .. values
    elseif s.place then
      values = start .. sub(values, 1, s.place - 1) .. sub(values, s.place + width)
        .. s.charged .. '=' .. format('%016.0f', s.at)
    else
      values = start .. values .. s.charged .. '+' .. format('%016.0f', s.at)
    end
    redis.call('SET', s.key, values, 'PX', expiry(wait))
  end

  family.write = write

  if settles then
    -- A value that another request has had since stays.
    family.refund = function(s, _, _, ticket)
      find(s)
      local kind = s.place and sub(s.values, s.place + 16, s.place + 32)
      if kind ~= format('+%016.0f', ticket) then
        return 0
      end
      s.values, s.a = sub(s.values, 1, s.place - 1) .. sub(s.values, s.place + width), s.a - 1
      if s.a == 0 then
        redis.call('DEL', s.key)
        return 1
      end
      s.at = instantOf(s, s.a)
      write(s, s.at - now + s.limit.P)
      return 1
    end
  end
end
