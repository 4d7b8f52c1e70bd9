-- Decides most requests: they take units by one limit, and their state is of that limit. The rest
-- of take.lua would decide the same, and decides all other requests. This part only saves time.

do
  local text, n, at, a, b, state, zero = limit, tonumber(argv[4]), 0, 0, 0, ' 0 0 0', ''
  local isKnown = family and n and n > 0
  if isKnown and only then
    local length = #text
    state, at, a, b = match(only, '^( (%d+) (%d+)( ?%d*))$', length + 1)
    if b == '' then
      b, zero = 0, ' 0'
    else
      b = tonumber(b)
    end
    isKnown = b and #only < 512 and at + 0 <= now and sub(only, 1, length) == text
  end
  if isKnown and only ~= nil then
    most, P, Q = most + 0, P + 0, Q + 0
    if family.products and P * most > 4503599627370000 then -- see charge.lua
      --- products
    end
    local fits, newAt, newA, newB, reset =
      family.decide(most, P, Q, now, at + 0, a + 0, b, n, nil, only)
    if fits then
      redis.call('SET', keys[1],
        text .. (newB > 0 and format(wholes, newAt, newA, newB) or format(pair, newAt, newA)),
        'PX', format(whole, floor((reset + 999) / 1000) + grace))
    end
    if fits ~= nil then
      return argv[1] .. ' ' .. nowText .. (fits and ' 1' or ' 0') .. state .. zero
        .. (family.tail or '')
    end
  end
end
