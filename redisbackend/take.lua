-- Decides requests one after the other, at one instant. Each takes all that it
-- charges or nothing. A key is read when the first request charges it and written
-- once, at the end. A server that refuses to write refuses the first write, so either
-- all requests have taken what they were granted, or the reply is an error and none
-- has.
--
-- KEYS   the keys of a request, each once, then those of the next
-- ARGV   of one request, for each key:
--          its limit    as in a state, see state.lua
--          units of its enforced charges, "" if it has none, and if it has shadow
--          charges, "," and the units of those, and if they last, "@" and for how long: they
--          may be settled; of a concurrency limit, "#" and the id of its first
--          unit, see concurrent.lua
--        then its mode: "take", the default; "peek"; or "tentative", which takes and
--        also tells what there was before, since the units may be given back
--        then the instant in microseconds since the Unix epoch, if not the server's
-- ARGV   of several:
--          "batch", and if it is not the server's, " " and the instant
--          for each request the number of its form, from 1, and if it stands for n
--          equal ones, "x" and n; then " ". If there are concurrency limits, "@" and
--          for each charge by one the id of its first unit, request by request
--          the forms, "|" in between: the mode, and for each key " ", its limit, "="
--          and its units as above
-- reply  the instant, and for each key of a request these numbers for its enforced
--        charges and, if it has any, for its shadow charges:
--          remaining
--          reset after
--          effective window if allowed, otherwise minus retry after, which is the
--          effective window too; -9007199254740991 is never
--          delay, of queues only
--          of charges that last only: the instant of the taking, of sliding windows
--          the number of its window, and the serial of the state that it left; both
--          are 0 if nothing was taken
--        In mode "tentative" five more follow the numbers of each key: remaining,
--        reset after and effective window before anything was taken; retry after of
--        the shadow charges then, 0 if it has none; and the instant of the taking,
--        which is later than the reply's if the clock has stepped back.
--        Of several requests each starts with a number: 1, or of n equal ones the
--        number that was decided, up to the first denial; negative if one is denied.
--        The others get the same denial. A request that charges a key whose state
--        cannot be read has an error in place of all this, and takes nothing.
--        Times are microseconds.

now, grace = instant, ttlGrace

local batch = match(ARGV[1], '^batch ?(%d*)$')
if batch and batch ~= '' then
  now, grace = tonumber(batch), 86400000
end

local accounts = {} -- by key: what has been read, and what requests have taken since
local changed = {} -- the accounts that something was taken from
local reply, length = { now }, 1

-- flush writes what was taken from an account, and forgets the account.
local function flush(account)
  if account.took > 0 then
    write(account.key, account.limit, account.s)
    account.took = 0
  end
  accounts[account.key] = nil
end

-- accountOf returns the account of a key for a request that charges it by a limit,
-- nil if its state cannot be read.
local function accountOf(key, limit, mode)
  local account = accounts[key]
  if account and (account.limit ~= limit or account.ahead and account.took > 0 or mode == 'tentative' and limit.algorithm == 'g') then
    flush(account)
    account = nil
  end
  if not account then
    account = load(key, limit)
    if not account then
      return nil
    end
    accounts[key] = account
  end
  if account.from and mode ~= 'peek' then -- for denied requests too: otherwise it would not drain between them
    write(key, account.from, account.rebased)
    account.from, account.rebased = nil, nil
  end
  return account
end

-- copy returns a copy of an account, from which a peek may take.
local function copy(account)
  local s = {}
  for name, value in pairs(account.s) do
    s[name] = value
  end
  return { limit = account.limit, s = s, took = 0 }
end

-- add decides n units of an account, which are taken if the request is allowed.
-- before describes the account without them, where that is part of the answer.
local function add(account, n, lasts, mode, allowed, before)
  local limit, s = account.limit, account.s
  local fit, delay, at, serial = limit.family.fits(limit, s, n), 0, 0, 0
  if allowed and fit and n > 0 then
    if limit.algorithm == 'q' and (s.a > 0 or s.b > 0) then
      delay = s.asOf - now + ceil(s.a, s.b)
    end
    if account.lasts then
      if limit.family.note then
        limit.family.note(limit, s, account.lasts)
      end
      if limit.algorithm == 'q' then
        s.serial = nil -- of a queue only the latest taking is ever returned
      end
      if lasts and not s.serial then
        s.serial = newSerial()
      end
      account.lasts = nil
    end
    local former = s.former
    s.former, s.gone = nil, nil
    limit.family.take(limit, s, n, former)
    if account.took == 0 and mode ~= 'peek' then
      changed[#changed + 1] = account
    end
    account.took = account.took + n
    at, serial = limit.algorithm == 's' and s.at / limit.P or s.asOf, s.serial or 0
  end
  local left, reset, effective
  if before and (mode == 'peek' or not allowed) then
    left, reset, effective = before[1], before[2], before[3]
  else
    left, reset, effective = describe(limit, s)
  end
  if not fit then
    local wait = retryAfter(limit, s, n)
    effective = wait < 0 and -9007199254740991 or -wait
  end
  reply[length + 1], reply[length + 2], reply[length + 3] = left, reset, effective
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

-- charge decides what a request charges one key.
local function charge(account, by, mode, allowed)
  local limit, s = account.limit, account.s
  local before, shadowWait
  if not allowed or mode ~= 'take' then
    before, shadowWait = { describe(limit, s) }, 0
    if mode == 'tentative' and by.shadow and not limit.family.fits(limit, s, by.shadow) then
      shadowWait = retryAfter(limit, s, by.shadow)
    end
  end
  account.lasts = nil -- until it is noted what the charges find
  if (by.lasts or s.ring or s.serial) and mode ~= 'peek' then
    account.lasts = by.lasts or 0
  end
  add(account, by.n, by.lasts, mode, allowed, before)
  if by.shadow then
    add(account, by.shadow, by.lasts, mode, allowed, before)
  end
  if mode == 'tentative' then
    for _, number in ipairs({ before[1], before[2], before[3], shadowWait, s.asOf }) do
      length = length + 1
      reply[length] = number
    end
  end
end

-- addCharge adds a charge to the form of a request.
local function addCharge(form, limit, n, shadow, lasts)
  limit = limitOf(limit)
  form[#form + 1] = { limit = limit, n = tonumber(n) or 0, enforces = n ~= '', shadow = tonumber(shadow), lasts = tonumber(lasts) }
  if limit.algorithm == 'c' and form.mode ~= 'peek' then
    form.held = form.held + 1 -- each has an id in the arguments
  end
end

-- decide decides n equal requests of a form, whose keys are those after the at-th. ids
-- are those of the units that they take by concurrency limits. It returns an error text if
-- the state of a key cannot be read.
local function decide(form, at, n, ids)
  local charged, mode = {}, form.mode
  for i = 1, #form do
    local fine, account = pcall(accountOf, KEYS[at + i], form[i].limit, mode)
    if not fine then
      return type(account) == 'table' and account.err or account
    elseif not account then
      return unreadable
    end
    charged[i] = mode == 'peek' and copy(account) or account
  end
  local countAt = length + 1
  if batch then
    length = countAt
  end
  local rounds, allowed, id = 0, true, 1
  while allowed and rounds < n do
    for i = 1, #form do
      if charged[i].ahead and rounds > 0 then
        charged[i] = accountOf(KEYS[at + i], form[i].limit, mode)
      end
      allowed = allowed and (not form[i].enforces or charged[i].limit.family.fits(charged[i].limit, charged[i].s, form[i].n))
    end
    for i = 1, #form do
      if form[i].limit.algorithm == 'c' and mode ~= 'peek' then
        charged[i].s.first = sub(ids, id, id + 11)
        id = id + 12
      end
      charge(charged[i], form[i], mode, allowed)
    end
    rounds = rounds + 1
  end
  if batch then
    reply[countAt] = allowed and rounds or -rounds
  end
  if mode == 'tentative' then
    for i = 1, #form do
      if form[i].limit.algorithm == 'g' then
        flush(charged[i]) -- a taking of its own, which can be given back
      end
    end
  end
end

local forms = {}
if batch then
  for text in string.gmatch(ARGV[3], '[^|]+') do
    local form = { mode = match(text, '^%a+'), held = 0 }
    for limit, n, shadow, lasts in string.gmatch(text, '(1%a %d+ %d+ %d+)=(%d*),?(%d*)@?(%d*)') do
      addCharge(form, limit, n, shadow, lasts)
    end
    forms[#forms + 1] = form
  end
  local at, id = 0, 1
  local order, ids = match(ARGV[2], '^([%dx ]*)@?(.*)$')
  for form, n in string.gmatch(order, '(%d+)x?(%d*)') do
    form, n = forms[tonumber(form)], tonumber(n) or 1
    local wrong = decide(form, at, n, sub(ids, id, -1))
    id = id + 12 * n * form.held
    if wrong then
      length = length + 1
      reply[length] = { err = wrong }
    end
    at = at + #form
  end
else
  local form, ids = { mode = mode or 'take', held = 0 }, ''
  for i = 1, #KEYS do
    local n, shadow, lasts, id = match(ARGV[2 * i], '^(%d*),?(%d*)@?(%d*)#?(.*)$')
    addCharge(form, ARGV[2 * i - 1], n, shadow, lasts)
    ids = ids .. id
  end
  local wrong = decide(form, 0, 1, ids)
  if wrong then
    return redis.error_reply(wrong)
  end
end

for i = 1, #changed do
  if changed[i].took > 0 then
    write(changed[i].key, changed[i].limit, changed[i].s)
  end
end
return reply
