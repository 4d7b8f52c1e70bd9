-- The second part of the script of take.lua. It decides a call of several requests in one pass, if
-- all of them are common: enforced charges by buckets, windows or bans, or of one unit by concurrency
-- limits that have room, states of version 1 that were written under the same limits, a clock that has
-- not stepped back, and products below 2^53. In any other case it changes nothing and leaves the call
-- to the rest of the script. take.lua specifies the arguments and the reply, the file of a family what
-- the numbers of its states mean: the arithmetic is theirs.

local batch = string.match(ARGV[1], '^batch ?(%d*)$')

-- decideAll returns the reply, nil if the rest of the script has to decide.
local function decideAll()
  local call, floor, match, format = redis.call, math.floor, string.match, string.format
  local instant, ttlGrace = instant, ttlGrace
  if batch ~= '' then
    instant, ttlGrace = batch + 0, 86400000
  end
  local keys, tooLarge = KEYS, 9007199254740992
  local states = call('MGET', unpack(keys))
  local now = format('%.0f', instant)

  -- A charge is what a request takes from a key. Its kind is one of these.
  local drains, fixed, slides, anchored, bans, holds = 1, 2, 3, 4, 5, 6
  local kinds = { t = drains, l = drains, q = drains, f = fixed, s = slides, n = anchored, b = bans, c = holds }

  -- timeOf returns the time in which n units come: microseconds, and Q-ths of another. It is nil if
  -- that takes too large a product.
  local function timeOf(charge, n)
    local product = n * charge.F
    if product >= tooLarge then
      return nil
    end
    local us = floor(product / charge.Q)
    return n * charge.U + us, product - us * charge.Q
  end

  local function newCharge(limit, n)
    local algorithm, most, P, Q = match(limit, '^1(%a) (%d+) (%d+) (%d+)$')
    local kind = kinds[algorithm]
    if not kind or not n or n == '0' or kind == holds and n ~= '1' then
      return nil
    end
    local charge = {
      limit = limit, pattern = '^' .. limit .. ' (%d+) (%d+) (%d+)$', kind = kind, queues = algorithm == 'q',
      n = n + 0, most = most + 0, P = P + 0, Q = Q + 0,
    }
    if kind == drains then
      charge.U = floor(P / Q)
      charge.F = P - charge.U * Q
      charge.full, charge.fullFrac = timeOf(charge, charge.most)
      charge.time, charge.timeFrac = timeOf(charge, charge.n)
      if not charge.full or not charge.time then
        return nil
      end
    end
    return charge
  end

  -- open returns the account of a key, which is at-th of all, by a charge. It is nil if the state
  -- is not common.
  local function open(at, charge)
    local P, most, kind = charge.P, charge.most, charge.kind
    if kind == holds then
      if call('ZCOUNT', keys[at], '-inf', now) > 0 then
        return nil
      end
      return { charge = charge, key = keys[at], a = call('ZCARD', keys[at]), b = 0, ids = {} }
    end
    local state = states[at] or redis.pcall('GET', keys[at]) -- what is no string has no value for MGET, and an error for GET
    if type(state) == 'table' then
      return nil
    end
    local since, a, b = instant, 0, 0
    if state then
      since, a, b = match(state, charge.pattern)
      if not since then
        return nil
      end
      since, a, b = since + 0, a + 0, b + 0
      if since > instant then
        return nil
      end
    end
    local account = { charge = charge, key = keys[at] }
    if kind == drains then
      if b >= charge.Q or a > charge.full or a == charge.full and b > charge.fullFrac then -- it owes
        return nil
      end
      a = a - (instant - since)
      if a < 0 then
        a, b = 0, 0
      end
    elseif kind == anchored then
      if a > most or b > most then
        return nil
      elseif instant - since >= P then
        since, a, b = instant, 0, 0
      end
    elseif kind == bans then
      if b > 4294967295 or a > 0 and a <= since then
        return nil
      elseif instant >= (a > 0 and a or b > 0 and since + P or since) then
        since, a, b = instant, 0, 0
      end
    else
      account.rest = P - instant % P
      local begin = instant + account.rest - P
      if since ~= begin and state then
        if (begin - since) % P ~= 0 then
          return nil
        end
        b, a = kind == slides and begin - since == P and a or 0, 0
      elseif kind == fixed and b > 0 then
        return nil
      end
      if a > most or b > 2000000000 or account.rest * b >= tooLarge then
        return nil
      end
      since = begin
      account.faded = floor(account.rest * b / P)
    end
    account.since, account.a, account.b = since, a, b
    return account
  end

  local function fits(account, charge)
    local kind = charge.kind
    if kind == drains then
      local us, frac = account.a + charge.time, account.b + charge.timeFrac
      if frac >= charge.Q then
        us, frac = us + 1, frac - charge.Q
      end
      return us < charge.full or us == charge.full and frac <= charge.fullFrac
    elseif kind == bans then
      return account.a == 0
    end
    return account.a + (account.faded or 0) + charge.n <= charge.most
  end

  local function take(account, charge)
    local kind, n = charge.kind, charge.n
    if kind == drains then
      account.a, account.b = account.a + charge.time, account.b + charge.timeFrac
      if account.b >= charge.Q then
        account.a, account.b = account.a + 1, account.b - charge.Q
      end
      return
    elseif kind == bans then
      if account.b == 0 then
        account.since = instant
      end
      account.b = account.b + n
      if account.b >= charge.most then
        account.a = instant + charge.Q
      end
      account.b = account.b < 4294967295 and account.b or 4294967295
      return
    elseif kind == anchored and account.since == instant then
      account.b = account.b + n
    end
    account.a = account.a + n
  end

  local function ceil(account)
    return account.b > 0 and account.a + 1 or account.a
  end

  -- fades returns the first time into a window of P at which n units of the window before weigh no
  -- more than m; nil if that takes too large a product.
  local function fades(P, n, m)
    if n <= m then
      return 0
    end
    local whole = floor(P / n)
    local product = (P - whole * n) * (m + 1)
    if product >= tooLarge / 2 then
      return nil
    end
    return P + 1 - (m + 1) * whole - floor((product + n - 1) / n)
  end

  -- drained returns the wait until a bucket has room for a time.
  local function drained(account, charge, us, frac)
    us, frac = account.a + us - charge.full, account.b + frac - charge.fullFrac
    if frac > charge.Q then
      return us + 2
    end
    return frac > 0 and us + 1 or us
  end

  -- wait returns the wait until n units fit, which do not fit now.
  local function wait(account, charge, n)
    local kind, P, most, a = charge.kind, charge.P, charge.most, account.a
    if kind == bans then
      return (a > 0 and a or account.since + P) - instant
    elseif n > most then
      return 9007199254740991
    elseif kind == drains then
      return drained(account, charge, charge.time, charge.timeFrac)
    elseif kind == fixed then
      return account.rest
    elseif kind == anchored then
      return account.since + P - instant
    elseif a + n <= most then
      local faded = fades(P, account.b, most - a - n)
      return faded and faded - P + account.rest
    end
    local faded = fades(P, a, most - n)
    return faded and account.rest + faded
  end

  -- describe returns remaining, reset after and effective window.
  local function describe(account, charge)
    local kind, P, Q, most, a, b = charge.kind, charge.P, charge.Q, charge.most, account.a, account.b
    if kind == holds then
      return most - a, 0, 0
    elseif kind == drains then
      local us, frac = charge.full - a, charge.fullFrac - b
      if frac < 0 then
        us, frac = us - 1, frac + Q
      end
      local left = floor(us / P)
      if Q > 1 then
        local product = (us - left * P) * Q
        if product >= tooLarge then
          return nil
        end
        local q = floor(product / P)
        left = left * Q + q + floor((product - q * P + frac) / P)
      end
      if left == 0 then
        return 0, ceil(account), drained(account, charge, charge.U, charge.F)
      end
      local window, rest = timeOf(charge, left)
      return left, ceil(account), rest > 0 and window + 1 or window
    elseif kind == fixed then
      return most - a, a > 0 and account.rest or 0, account.rest
    elseif kind == anchored then
      local rest = account.since + P - instant
      return most - a, a > 0 and rest or 0, rest
    elseif kind == bans then
      local reset = a > 0 and a - instant or b > 0 and account.since + P - instant or 0
      return (a > 0 or b > most) and 0 or most - b, reset, b > 0 and reset or P
    end
    local left, reset = most - a - account.faded, 0
    if a > 0 then
      reset = account.rest + P
    elseif b > 0 then
      reset = account.rest
    end
    if left <= 0 then
      return 0, reset, wait(account, charge, 1)
    elseif left * P >= tooLarge then
      return nil
    end
    return left, reset, floor((left * P + most - 1) / most)
  end

  -- write writes what an account is after the call.
  local function write(account)
    local charge, a, b = account.charge, account.a, account.b
    local kind, since, fresh = charge.kind, now, ceil(account)
    if kind == holds then
      call('ZADD', account.key, unpack(account.ids))
      call('PEXPIRE', account.key, format('%.0f', floor((charge.P + 999) / 1000) + ttlGrace))
      return
    elseif kind ~= drains then
      since, fresh = format('%.0f', account.since), account.since + charge.P - instant
      if kind == slides then
        fresh = fresh + charge.P
      elseif kind == bans and a > 0 then
        fresh = a - instant
      end
    end
    local small = a < 2147483648 and b < 2147483648 -- 31 bits are enough on every server, and quicker
    local ttl = floor((fresh + 999) / 1000) + ttlGrace
    call('SET', account.key, format(small and '%s %s %d %d' or '%s %s %.0f %.0f', charge.limit, since, a, b),
      'PX', format(ttl < 2147483648 and '%d' or '%.0f', ttl))
  end

  local forms = {}
  for text in string.gmatch(ARGV[3], '[^|]+') do
    local form = {}
    local mode, rest = match(text, '^(%a+)(.*)$')
    if mode ~= 'take' then
      return nil
    end
    for limit, units in string.gmatch(rest, ' (1%a %d+ %d+ %d+)=(%S*)') do
      local charge = newCharge(limit, match(units, '^%d+$'))
      if not charge then
        return nil
      end
      form[#form + 1] = charge
    end
    forms[#forms + 1] = form
  end

  local accounts, written = {}, {}
  local reply, length, at = { instant }, 1, 0
  local order, ids = match(ARGV[2], '^([%dx ]*)@?(.*)$')
  local id = 1 -- where in ids the next is
  for number, rounds in string.gmatch(order, '(%d+)x?(%d*)') do
    local form, count, charged = forms[number + 0], length + 1, {}
    rounds = rounds == '' and 1 or rounds + 0
    length = count
    for i = 1, #form do
      local key = keys[at + i]
      local account = accounts[key]
      if not account then
        account = open(at + i, form[i])
        accounts[key] = account
      end
      if not account or account.charge.limit ~= form[i].limit then
        return nil
      end
      charged[i] = account
    end
    at = at + #form
    local decided, allowed = 0, true
    while allowed and decided < rounds do
      for i = 1, #form do
        allowed = allowed and fits(charged[i], form[i])
      end
      for i = 1, #form do
        local account, charge, delay = charged[i], form[i], 0
        if allowed then
          delay = ceil(account)
          take(account, charge)
          if charge.kind == holds then
            account.ids[#account.ids + 1] = format('%.0f', instant + charge.P)
            account.ids[#account.ids + 1] = string.sub(ids, id, id + 11)
            id = id + 12
          end
          if not account.took then
            account.took = true
            written[#written + 1] = account
          end
        end
        local left, reset, effective = describe(account, charge)
        if charge.kind == holds and not allowed then
          return nil
        end
        if not allowed and not fits(account, charge) then
          effective = wait(account, charge, charge.n)
          effective = effective and -effective
        end
        if not left or not effective then
          return nil
        end
        reply[length + 1], reply[length + 2], reply[length + 3] = left, reset, effective
        length = length + 3
        if charge.queues then
          length = length + 1
          reply[length] = delay
        end
      end
      decided = decided + 1
    end
    reply[count] = allowed and decided or -decided
  end

  for i = 1, #written do
    write(written[i])
  end
  return reply
end

if batch then
  local reply = decideAll()
  if reply then
    return reply
  end
end
