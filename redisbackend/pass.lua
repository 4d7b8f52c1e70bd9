-- The second part of the script of take.lua. It decides a call of several requests in one pass, if
-- all of them are common: enforced charges by buckets with Q = 1 or by windows, states that were
-- written under the same limits, a clock that has not stepped back, and products of at most 53
-- bits. In any other case it changes nothing and leaves the call to the rest of the script, which
-- takes three times as long. take.lua specifies the arguments and the reply.

local batch = string.match(ARGV[1], '^batch ?(%d*)$')

-- decideAll returns the reply, nil if the rest of the script has to decide.
local function decideAll()
  local call, floor, match, format = redis.call, math.floor, string.match, string.format
  local instant, ttlGrace, digits = instant, ttlGrace, nil
  if batch ~= '' then
    instant, ttlGrace = batch + 0, 86400000
  end
  digits = format('%.0f', instant)

  local keys = KEYS
  local states = call('MGET', unpack(keys))
  local accounts, written = {}, {}

  -- open returns the account of a key, which is at-th of all, by a charge.
  local function open(at, charge)
    local P, most, limit = charge.P, charge.most, charge.limit
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
    if charge.drains then
      if a > most * P or b > 0 then -- it owes, or is of another Q
        return nil
      end
      a = a - (instant - since)
      account.a = a > 0 and a or 0
      return account
    end
    local rest = P - instant % P
    local begin = instant + rest - P
    if since ~= begin and state then
      if (begin - since) % P ~= 0 then
        return nil
      end
      b, a = charge.slides and begin - since == P and a or 0, 0
    elseif not charge.slides and b > 0 then
      return nil
    end
    if a > most or rest * b >= 9007199254740992 or b > 2000000000 then
      return nil
    end
    account.a, account.b, account.rest, account.begin = a, b, rest, begin
    account.faded = floor(rest * b / P)
    return account
  end

  -- fades returns the first time into a window of P at which n units of the window before weigh no
  -- more than m; nil if that takes a product of more than 53 bits.
  local function fades(P, n, m)
    if n <= m then
      return 0
    end
    local whole = floor(P / n)
    local product = (P - whole * n) * (m + 1)
    if product >= 4503599627370496 then
      return nil
    end
    return P + 1 - (m + 1) * whole - floor((product + n - 1) / n)
  end

  -- wait returns the wait until n units fit, which do not fit now.
  local function wait(account, n)
    local charge, a = account.charge, account.a
    local P, most = charge.P, charge.most
    if n > most then
      return 9007199254740991
    elseif charge.drains then
      return a + n * P - most * P
    elseif not charge.slides then
      return account.rest
    elseif a + n <= most then
      local faded = fades(P, account.b, most - a - n)
      return faded and faded - P + account.rest
    end
    local faded = fades(P, a, most - n)
    return faded and account.rest + faded
  end

  -- describe returns remaining, reset after and effective window.
  local function describe(account)
    local charge, a = account.charge, account.a
    local P, most = charge.P, charge.most
    if charge.drains then
      local room = most * P - a
      local left = floor(room / P)
      return left, a, left > 0 and left * P or P - room
    elseif not charge.slides then
      return most - a, a > 0 and account.rest or 0, account.rest
    end
    local left, reset = most - a - account.faded, 0
    if a > 0 then
      reset = account.rest + P
    elseif account.b > 0 then
      reset = account.rest
    end
    if left <= 0 then
      return 0, reset, wait(account, 1)
    elseif left * P >= 9007199254740992 then
      return nil
    end
    return left, reset, floor((left * P + most - 1) / most)
  end

  local function fits(account, n)
    local charge = account.charge
    if charge.drains then
      return account.a + n * charge.P <= charge.most * charge.P
    end
    return account.a + (account.faded or 0) + n <= charge.most
  end

  local forms = {}
  for text in string.gmatch(ARGV[3], '[^|]+') do
    local form = {}
    local mode, rest = match(text, '^(%a+)(.*)$')
    for limit, units in string.gmatch(rest, ' (1%a %d+ %d+ %d+)=(%S*)') do
      local algorithm, most, P, Q = match(limit, '^1(%a) (%d+) (%d+) (%d+)$')
      local slides, n = algorithm == 's', match(units, '^%d+$')
      local drains = Q == '1' and (algorithm == 't' or algorithm == 'l' or algorithm == 'q')
      if mode ~= 'take' or not n or n == '0' or not drains and not slides and algorithm ~= 'f' then
        return nil
      end
      form[#form + 1] = {
        limit = limit, pattern = '^' .. limit .. ' (%d+) (%d+) (%d+)$', n = n + 0, most = most + 0, P = P + 0,
        drains = drains, slides = slides, queues = algorithm == 'q',
      }
    end
    forms[#forms + 1] = form
  end

  local reply, length, at = { instant }, 1, 0
  for number, rounds in string.gmatch(ARGV[2], '(%d+)x?(%d*)') do
    local form, count = forms[number + 0], length + 1
    rounds = rounds == '' and 1 or rounds + 0
    length = count
    local charged = {}
    for i = 1, #form do
      local account = accounts[keys[at + i]]
      if not account then
        account = open(at + i, form[i])
        if not account then
          return nil
        end
        accounts[keys[at + i]] = account
      elseif account.charge.limit ~= form[i].limit then
        return nil
      end
      charged[i] = account
    end
    at = at + #form
    local decided, allowed = 0, true
    while allowed and decided < rounds do
      for i = 1, #form do
        allowed = allowed and fits(charged[i], form[i].n)
      end
      for i = 1, #form do
        local account, n, delay = charged[i], form[i].n, 0
        if allowed then
          delay = account.a
          account.a = account.a + n
          if form[i].drains then
            account.a = delay + n * form[i].P
          end
          if not account.took then
            account.took = true
            written[#written + 1] = account
          end
        end
        local left, reset, effective = describe(account)
        if not allowed and not fits(account, n) then
          effective = wait(account, n)
          effective = effective and -effective
        end
        if not left or not effective then
          return nil
        end
        reply[length + 1], reply[length + 2], reply[length + 3] = left, reset, effective
        length = length + 3
        if form[i].queues then
          length = length + 1
          reply[length] = delay
        end
      end
      decided = decided + 1
    end
    reply[count] = allowed and decided or -decided
  end

  for i = 1, #written do
    local account = written[i]
    local charge = account.charge
    local state, reset
    if charge.drains then
      reset = account.a
      state = format(reset < 2147483648 and '%s %s %d 0' or '%s %s %.0f 0', charge.limit, digits, reset)
    else
      reset = account.rest + (charge.slides and charge.P or 0)
      state = format('%s %.0f %d %d', charge.limit, account.begin, account.a, account.b)
    end
    local ttl = floor((reset + 999) / 1000) + ttlGrace
    call('SET', account.key, state, 'PX', ttl < 2147483648 and format('%d', ttl) or format('%.0f', ttl))
  end
  return reply
end

if batch then
  local reply = decideAll()
  if reply then
    return reply
  end
end
