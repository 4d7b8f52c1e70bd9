-- Decides requests one after the other, at one instant. Each takes all that it
-- charges or nothing. A key is read when the first request charges it and written
-- once, at the end: a server that refuses to write refuses the first, so either all
-- requests have taken what they were granted, or the reply is an error and none has.
--
-- KEYS   the keys of a request, each once, then those of the next
-- ARGV   of one request, for each key:
--          its limit    as in a state, see state.lua
--          units of its enforced charges, and if it has shadow charges, ","
--          and the units of those
--        then "take", as if there were none, "peek", or "share": take, and tell
--        what there was before
--        then the instant in microseconds since the Unix epoch, if not the server's
-- ARGV   of several:
--          "batch", and if it is not the server's, " " and the instant
--          for each request the number of its form, from 1, and if it stands for n
--          equal ones, "x" and n; then " "
--          the forms, "|" in between: "take", "peek" or "share", and for each key
--          " ", its limit, "=" and its units as above
-- reply  the instant, and for each key of a request these numbers for its enforced
--        charges and, if it has any, for its shadow charges:
--          remaining
--          reset after
--          effective window if allowed, otherwise minus retry after, which is the
--          effective window too; -9007199254740991 is never
--          delay, of queues only
--        For "share" five more follow the numbers of each key: remaining,
--        reset after and effective window before anything was taken, retry after
--        of the shadow charges then (0 if it has none), and the instant at which
--        it was taken, later than the first where a clock that stepped back is
--        held.
--        Of several requests each has the number of those that were decided in front
--        of its numbers: 1, or of n equal ones so many as there are up to the first
--        that is denied, negative if one is. Those beyond get the denial of that
--        one. A request that charges a key whose state cannot be read has an error
--        in place of all this, and takes nothing.
--        Times are microseconds.

now, slack = instant, outlives

local batch = match(ARGV[1], '^batch ?(%d*)$')
if batch and batch ~= '' then
  now, slack = tonumber(batch), 86400000
end

local accounts = {} -- by key: what has been read, and what requests have taken since
local takers = {} -- those of them that something was taken from
local reply, length = { now }, 1

-- open returns the account of a key under the limit of t, from Redis. It is nil if
-- its state cannot be read.
local function open(key, t)
  local from, s = read(key, t)
  if from == nil then
    return { key = key, t = t, s = fresh(t, now), took = 0 }
  elseif not from then
    return nil
  end
  local account = { key = key, t = t, took = 0 }
  if s.at - now > hold(from) then
    s = rebased(from, s)
    account.from, account.rebased = from, s
  end
  if from == t or t.algorithm == from.algorithm and t.P == from.P and (not t.bucket or t.Q == from.Q) then
    s.appendable = t.most == from.most
    account.s = settle(t, s)
    return account
  end
  s = settle(from, s)
  local used = min(from.most - remaining(from, s), t.most)
  account.s = fresh(t, s.held)
  if used > 0 then
    take(t, account.s, used)
    account.s.former = { t = from, s = s }
  end
  account.ahead = s.held - now > hold(t) -- once written, it is rebased by whoever reads it
  return account
end

-- close writes what was taken from an account, which is read anew if it is charged
-- again.
local function close(account)
  if account.took > 0 then
    write(account.key, account.t, account.s)
    account.took = 0
  end
  accounts[account.key] = nil
end

-- accountOf returns the account of a key for a request that charges it by the limit
-- of t, nil if its state cannot be read.
local function accountOf(key, t, mode)
  local account = accounts[key]
  if account and (account.t ~= t or account.ahead and account.took > 0 or mode == 'share' and t.algorithm == 'g') then
    close(account)
    account = nil
  end
  if not account then
    account = open(key, t)
    if not account then
      return nil
    end
    accounts[key] = account
  end
  if account.from and mode ~= 'peek' then -- denied or not: otherwise it would not drain while it is denied
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
  return { t = account.t, s = s, took = 0 }
end

-- add decides n units of an account, which are taken if the request is allowed.
-- before describes the account before it, where that is part of the answer.
local function add(account, n, mode, allowed, before)
  local t, s = account.t, account.s
  local fit, delay = fits(t, s, n), 0
  if allowed and fit and n > 0 then
    if t.algorithm == 'q' and (s.a > 0 or s.b > 0) then
      delay = s.held - now + ceil(s.a, s.b)
    end
    take(t, s, n)
    if account.took == 0 and mode ~= 'peek' then
      takers[#takers + 1] = account
    end
    account.took = account.took + n
  end
  local left, wait, reset, window = describe(t, s, n, fit)
  if before and (mode == 'peek' or not allowed) then
    left, reset = before[1], before[3]
    if fit then
      window = before[4]
    end
  end
  if wait > 0 then
    window = -wait
  elseif wait < 0 then
    window = -9007199254740991
  end
  reply[length + 1], reply[length + 2], reply[length + 3] = left, reset, window
  length = length + 3
  if t.algorithm == 'q' then
    length = length + 1
    reply[length] = delay
  end
end

-- charge decides what a request charges one key.
local function charge(account, by, mode, allowed)
  local t, s = account.t, account.s
  local before, alone
  if not allowed or mode ~= 'take' then
    before, alone = { describe(t, s, 0, true) }, 0
    if mode == 'share' and by.shadow then
      local _
      _, alone = describe(t, s, by.shadow, fits(t, s, by.shadow))
    end
  end
  add(account, by.n, mode, allowed, before)
  if by.shadow then
    add(account, by.shadow, mode, allowed, before)
  end
  if mode == 'share' then
    for _, number in ipairs({ before[1], before[3], before[4], alone, s.held }) do
      length = length + 1
      reply[length] = number
    end
  end
end

-- addCharge adds a charge to the form of a request.
local function addCharge(form, limit, n, shadow)
  form[#form + 1] = { t = terms(limit), n = tonumber(n), shadow = tonumber(shadow) }
end

-- decide decides n equal requests of a form, whose keys are those after the at-th.
-- It returns what is wrong with the state of one of them.
local function decide(form, at, n)
  local charged, mode = {}, form.mode
  for i = 1, #form do
    local fine, account = pcall(accountOf, KEYS[at + i], form[i].t, mode)
    if not fine then
      return type(account) == 'table' and account.err or account
    elseif not account then
      return 'WEIR the state of a key was not written by this version of weir: run one version on every instance, or delete the keys'
    end
    charged[i] = mode == 'peek' and copy(account) or account
  end
  local place = length + 1
  if batch then
    length = place
  end
  local rounds, allowed = 0, true
  while allowed and rounds < n do
    for i = 1, #form do
      if charged[i].ahead and rounds > 0 then
        charged[i] = accountOf(KEYS[at + i], form[i].t, mode)
      end
      allowed = allowed and fits(charged[i].t, charged[i].s, form[i].n)
    end
    for i = 1, #form do
      charge(charged[i], form[i], mode, allowed)
    end
    rounds = rounds + 1
  end
  if batch then
    reply[place] = allowed and rounds or -rounds
  end
  if mode == 'share' then
    for i = 1, #form do
      if form[i].t.algorithm == 'g' then
        close(charged[i]) -- an entry of its own, which can be given back
      end
    end
  end
end

local forms = {}
if batch then
  for text in string.gmatch(ARGV[3], '[^|]+') do
    local form = { mode = match(text, '^%a+') }
    for limit, n, shadow in string.gmatch(text, '(1%a %d+ %d+ %d+)=(%d+),?(%d*)') do
      addCharge(form, limit, n, shadow)
    end
    forms[#forms + 1] = form
  end
  local at = 0
  for form, n in string.gmatch(ARGV[2], '(%d+)x?(%d*)') do
    form = forms[tonumber(form)]
    local wrong = decide(form, at, tonumber(n) or 1)
    if wrong then
      length = length + 1
      reply[length] = { err = wrong }
    end
    at = at + #form
  end
else
  local form = { mode = mode or 'take' }
  for i = 1, #KEYS do
    addCharge(form, ARGV[2 * i - 1], match(ARGV[2 * i], '^(%d+),?(%d*)$'))
  end
  local wrong = decide(form, 0, 1)
  if wrong then
    return redis.error_reply(wrong)
  end
end

for i = 1, #takers do
  if takers[i].took > 0 then
    write(takers[i].key, takers[i].t, takers[i].s)
  end
end
return reply
