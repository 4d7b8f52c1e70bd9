-- Sliding logs. A log lists its takings in order, each with the number of units taken before it.
-- Takings count for a period. Takings at one instant are one taking.
--
--   state    limit " " first " " count " " total [" " serial] [":" gaps] ";" takings
--   taking   at start            sixteen digits each
--   gap      index units         eight and sixteen digits
--
-- first is the index of the oldest taking that counted at the latest one, count the number of
-- takings, total the units of all. Spaces fill the header, so that it can be written in place.
-- Behind the last taking there may be room for others. For example the takings
--
--   index  at        start   units
--   0      12:00:00      0       2
--   1      12:00:10      2       1
--   2      12:00:20      3       4      total 7
--
-- A refund of one unit of taking 0 lowers the start of the takings 1 and 2, and the total. Rather
-- than write all these, it adds a gap:
--
--   index 1, units 1   the takings from 1 on start one unit lower than their texts say
--
-- The units of a gap include those of the gaps before it. If two gaps are close, or there are more
-- than eight, the takings between two gaps are written, and the two become one.
--
-- In memory:
--
--   at       the instant of the latest taking
--   a        the units that count, with those that this script takes
--   latest   the instant of the latest stored taking
--   start    the units before the first taking
--   counted  the units of the stored takings that count
--   header   the length of the stored header
--   room     how many takings the stored text has or has room for
--   seen     the texts of takings that were read

family = {
  lists = true,
  decide = function(most, P, _, asOf, at, a, b, n)
    local fits = n == 0 or a + n <= most
    if fits and n > 0 then
      at, a = asOf, a + n
    end
    return fits, at, a, b, a > 0 and at > asOf - P and at - asOf + P or 0
  end,
}

if states then
  local shortHeader, longHeader = 80, 320 -- the longest header has 309 bytes
  local spaces = string.rep(' ', longHeader)
  local mostGaps, close = 8, 32

  -- search returns the first i in [low, high) for which is(i) is true, otherwise high.
  local function search(low, high, is)
    while low < high do
      local middle = floor((low + high) / 2)
      if is(middle) then
        high = middle
      else
        low = middle + 1
      end
    end
    return low
  end

  -- before returns the units before the i-th taking. start is what its text says.
  local function before(s, i, start)
    local gaps = s.gaps
    if gaps == '' or tonumber(sub(gaps, 1, 8)) > i then
      return start
    end
    local k = #gaps / 24
    if tonumber(sub(gaps, -24, -17)) > i then
      k = search(1, k - 1, function(k) return tonumber(sub(gaps, 24 * k + 1, 24 * k + 8)) > i end)
    end
    return start - tonumber(sub(gaps, 24 * k - 15, 24 * k))
  end

  -- takingAt returns the instant of the i-th taking and the units before it. Behind the last
  -- taking it returns nil and all units.
  local function takingAt(s, i)
    if i >= s.count then
      return nil, before(s, i, s.total)
    end
    local text = s.seen[i]
    if not text then
      text = redis.call('GETRANGE', s.key, s.header + 32 * i, s.header + 32 * i + 31)
      if not match(text, '^%d+$') then
        error(unreadable, 0)
      end
      s.seen[i] = text
    end
    return tonumber(sub(text, 1, 16)), before(s, i, tonumber(sub(text, 17)))
  end

  local function open(s)
    s.at, s.a, s.b, s.counted, s.serial, s.latest = s.asOf, 0, 0, 0, nil, nil
    s.first, s.count, s.total, s.header, s.room, s.gaps, s.seen = 0, 0, 0, 0, 0, '', {}
  end

  -- takings returns the text of the takings in [from, to).
  local function takings(s, from, to)
    work = work + (to - from) / 20
    if s.header == 0 then -- nothing is stored
      return from == to and '' or s.seen[0]
    end
    local first, last = s.header + 32 * from, s.header + 32 * to - 1
    return from == to and '' or redis.call('GETRANGE', s.key, first, last)
  end

  local function put(s, i, text)
    s.seen = {}
    redis.call('SETRANGE', s.key, s.header + 32 * i, text)
  end

  -- gapsOf returns a list of { index, units }, where units leaves out those of the gaps before.
  local function gapsOf(s)
    local gaps, all = {}, 0
    for k = 1, #s.gaps, 24 do
      local i, units = tonumber(sub(s.gaps, k, k + 7)), tonumber(sub(s.gaps, k + 8, k + 23))
      if i > s.first then -- a gap before the first taking changes nothing
        gaps[#gaps + 1] = { i, units - all }
      end
      all = units
    end
    return gaps
  end

  local function textOf(gaps)
    local texts, all = {}, 0
    for i, gap in ipairs(gaps) do
      all = all + gap[2]
      texts[i] = format('%08.0f%016.0f', gap[1], all)
    end
    return table.concat(texts)
  end

  local function header(s)
    local text = encodeChange(s.change) .. s.limit.text .. format(wholes, s.first, s.count, s.total)
    text = text .. (s.serial and format(' %06d', s.serial) or '')
    text = text .. (s.gaps ~= '' and ':' .. s.gaps or '')
    local length = #text < shortHeader and shortHeader or longHeader
    length = #text < s.header and s.header or length
    return text .. sub(spaces, #text + 2, length) .. ';', length
  end

  -- store writes the header, and the latest taking if there is a new one. It writes all that
  -- counts if the header has grown, or if less than half of the stored takings count, unless this
  -- script has written much.
  local function store(s, latest, wait)
    if s.change then
      wait = max(wait, s.change.ends - now)
    end
    local text, length = header(s)
    local live = s.count - s.first
    local isWide = s.room - live >= max(64, live) and work < 500
    if length == s.header and not isWide then
      if latest then
        put(s, s.count - 1, latest)
      end
      redis.call('SETRANGE', s.key, 0, text)
      redis.call('PEXPIRE', s.key, expiry(wait))
      return
    end
    local all = takings(s, s.first, latest and s.count - 1 or s.count) .. (latest or '')
    local gaps = gapsOf(s)
    for _, gap in ipairs(gaps) do
      gap[1] = gap[1] - s.first
    end
    s.first, s.count, s.header, s.gaps = 0, live, 0, textOf(gaps)
    redis.call('SET', s.key, header(s) .. all, 'PX', expiry(wait))
  end

  family.open = open

  family.begin = function(s, n)
    open(s)
    s.latest, s.start, s.counted, s.a, s.total = s.asOf, 0, n, n, n
    s.count, s.seen[0] = 1, format('%016.0f%016.0f', s.asOf, 0)
  end

  -- decode sets s from the start of the stored text. It returns nil if another limit wrote that,
  -- and false if this limit cannot have written it.
  family.decode = function(s, text)
    local first, count, total, serial, gaps, header =
      match(text, '^' .. s.limit.text .. ' (%d+) (%d+) (%d+) ?(%d*):?(%d*) *;()')
    if not first then
      return nil
    end
    s.first, s.count = tonumber(first), tonumber(count)
    s.total, s.serial = tonumber(total), tonumber(serial)
    s.header, s.gaps, s.seen = header - 1 + (s.change and s.change.length or 0), gaps, {}
    s.room = (redis.call('STRLEN', s.key) - s.header) / 32
    if s.count == 0 and s.change then -- all of its units were returned
      s.at, s.a, s.b, s.start, s.counted = s.change.at, 0, 0, 0, 0
      return s.total == 0
    elseif s.room ~= floor(s.room) or s.first >= s.count or s.count > s.room or #gaps % 24 > 0 then
      return false
    end
    local _, start, last, stop
    _, start = takingAt(s, s.first)
    s.at, last = takingAt(s, s.count - 1)
    _, stop = takingAt(s, s.count)
    if max(s.at, s.total) >= 9007199254740992 or start > last or last >= stop
      or stop - start > 2 * s.limit.most then
      return false
    end
    s.latest, s.start, s.counted, s.a, s.b = s.at, start, stop - start, stop - start, 0
    return true
  end

  family.advance = function(s)
    local P = s.limit.P
    if s.count == 0 or s.asOf - s.at >= P then
      open(s)
      return
    end
    local at, start = takingAt(s, s.first)
    if s.asOf - at >= P then
      s.first = search(s.first + 1, s.count - 1, function(i)
        return s.asOf - takingAt(s, i) < P
      end)
      at, start = takingAt(s, s.first)
    end
    s.counted = s.counted - (start - s.start)
    s.a, s.start = s.counted, start
  end

  -- wait returns how long n units wait while so many are in use; 0 if they fit, or never fit.
  family.wait = function(s, used, n)
    local excess = used + n - s.limit.most
    if excess <= 0 or n > s.limit.most then
      return 0
    elseif excess > s.counted then
      return s.limit.P
    end
    local last = search(s.first, s.count - 1, function(i)
      local _, start = takingAt(s, i + 1)
      return start - s.start >= excess
    end)
    return takingAt(s, last) - s.asOf + s.limit.P
  end

  family.write = function(s, wait)
    local taken, latest = s.a - s.counted, nil
    if taken > 0 and s.latest ~= s.asOf then
      latest = format('%016.0f%016.0f', s.asOf, s.total)
      s.count = s.count + 1
    end
    s.total = s.total + taken
    store(s, latest, wait)
  end

  family.rebase = function(s, back)
    back.a = s.a
  end

  if settles then
    -- rewrite adds units to the start of each taking in [from, to).
    local function rewrite(s, from, to, units)
      work = work + to - from
      local text, changed = takings(s, from, to), {}
      for j = 1, #text, 32 do
        changed[#changed + 1] = sub(text, j, j + 15)
        changed[#changed + 1] = format('%016.0f', tonumber(sub(text, j + 16, j + 31)) + units)
      end
      put(s, from, table.concat(changed))
    end

    -- addGap adds a gap, or units to the gap at its index.
    local function addGap(gaps, i, units)
      local k = 1
      while gaps[k] and gaps[k][1] < i do
        k = k + 1
      end
      if gaps[k] and gaps[k][1] == i then
        gaps[k][2] = gaps[k][2] + units
      else
        table.insert(gaps, k, { i, units })
      end
    end

    -- move moves the takings in [from, to) by one place, and returns the new gaps.
    local function move(s, from, to, by)
      local gaps = {}
      for _, gap in ipairs(gapsOf(s)) do
        addGap(gaps, gap[1] >= from and gap[1] <= to and gap[1] + by or gap[1], gap[2])
      end
      put(s, from + by, takings(s, from, to))
      return gaps
    end

    -- merge merges the two gaps with the fewest takings between them, until there are few gaps and
    -- none are close. The first taking and the end count as gaps; merging with them removes the
    -- gap.
    local function merge(s, gaps)
      while gaps[1] do
        local k, least, from = 1, s.count, s.first
        for i = 1, #gaps + 1 do
          local to = gaps[i] and gaps[i][1] or s.count
          if to - from < least then
            k, least = i, to - from
          end
          from = to
        end
        if least > close and #gaps <= mostGaps then
          return
        elseif k == 1 then
          rewrite(s, s.first, gaps[1][1], gaps[1][2])
          table.remove(gaps, 1)
        elseif gaps[k] then
          rewrite(s, gaps[k - 1][1], gaps[k][1], gaps[k][2])
          gaps[k - 1][2] = gaps[k - 1][2] + gaps[k][2]
          table.remove(gaps, k)
        else
          rewrite(s, gaps[k - 1][1], s.count, -gaps[k - 1][2])
          s.total = s.total - gaps[k - 1][2]
          table.remove(gaps)
        end
      end
    end

    family.charge = function(s, n)
      n = max(0, min(n, 2 * s.limit.most - s.a))
      s.a, s.at = s.a + n, s.asOf
      return n
    end

    -- If a taking has no units left, the takings on its shorter side move into its place.
    family.refund = function(s, n, final, ticket)
      if final and max(now, s.at) - ticket >= s.limit.P then
        return 0 -- it has expired
      end
      local i = search(s.first, s.count, function(i) return takingAt(s, i) >= ticket end)
      local at, start = takingAt(s, i)
      local _, stop = takingAt(s, i + 1)
      n = at == ticket and min(n, stop - start) or 0
      local gaps
      if n == 0 then
        return 0
      elseif n < stop - start then
        gaps = gapsOf(s)
        addGap(gaps, i + 1, n)
      elseif s.count - s.first == 1 then
        if s.change then
          s.first, s.count, s.total, s.header, s.gaps = 0, 0, 0, 0, ''
          store(s, nil, 0)
        else
          redis.call('DEL', s.key)
        end
        return n
      elseif i - s.first < s.count - 1 - i then
        gaps = move(s, s.first, i, 1)
        s.first = s.first + 1
        addGap(gaps, i + 1, n)
      else
        gaps = move(s, i + 1, s.count, -1)
        s.count = s.count - 1
        addGap(gaps, i, n)
      end
      merge(s, gaps)
      s.gaps = textOf(gaps)
      at = takingAt(s, s.count - 1)
      store(s, nil, at - now + s.limit.P)
      return n
    end
  end
end
