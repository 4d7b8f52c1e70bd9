-- Decides charges on any number of keys at one instant and takes all or none.
--
-- KEYS   the keys, each once
-- ARGV   for each key:
--          its limit    as in a state, see state.lua
--          units of its enforced charges, and if it has shadow charges, " "
--          and the units of those
--        "take", as if there were none, "peek", or "share": take, and tell what
--        there was before; or "take n", n > 1: decide n such requests one after
--        the other, as far as the first that is denied
--        the instant in microseconds since the Unix epoch, if not the server's
-- reply  the instant, and for each key these numbers for its enforced charges and,
--        if it has any, for its shadow charges:
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
--        For "take n" the numbers of each request follow those of the one before,
--        and last of all is 0 if the last request was denied, otherwise 1.
--        Times are microseconds.

now, slack = instant, outlives

-- account returns the terms of a key's charges and its state under them.
local function account(i)
  local t = terms(ARGV[2 * i - 1])
  local from, s = read(KEYS[i])
  if from == nil then
    return t, fresh(t, now)
  elseif not from then
    return nil
  end
  if s.at - now > hold(from) then
    s = rebased(from, s)
    if mode ~= 'peek' then -- denied or not: otherwise it would not drain while it is denied
      write(KEYS[i], from, s)
    end
  end
  local same = t.algorithm == from.algorithm and t.P == from.P
  if t.bucket then
    same = same and t.Q == from.Q
  end
  if same then
    s.appendable = t.most == from.most
    return t, settle(t, s)
  end
  s = settle(from, s)
  local used, converted = min(from.most - remaining(from, s), t.most), fresh(t, s.held)
  if used > 0 then
    take(t, converted, used)
    converted.former = { t = from, s = s }
  end
  return t, converted
end

local accounts, allowed = {}, nil
local rounds = tonumber(mode and match(mode, '^take (%d+)$') or nil)
for i = 1, #KEYS do
  local t, s = account(i)
  if not t then
    return redis.error_reply('WEIR the state of a key was not written by this version of weir: run one version on every instance, or delete the keys')
  end
  local n, shadow = match(ARGV[2 * i], '^(%d+) ?(%d*)$')
  n = tonumber(n)
  accounts[i] = { t = t, s = s, n = n, shadow = tonumber(shadow), took = 0 }
end

local reply = { now }
local function add(...)
  for _, number in ipairs({ ... }) do
    reply[#reply + 1] = number
  end
end

local function addDecision(t, d, delay)
  local left, wait, reset, window = unpack(d)
  if wait > 0 then
    window = -wait
  elseif wait < 0 then
    window = -9007199254740991
  end
  add(left, reset, window)
  if t.algorithm == 'q' then
    add(delay)
  end
end

-- one decides what a request charges one key.
local function one(account)
  local t, s = account.t, account.s
  local before = describe(t, s, 0, true)
  local alone = 0
  if mode == 'share' and account.shadow then
    alone = describe(t, s, account.shadow, fits(t, s, account.shadow))[2]
  end
  local function decide(n)
    local fit = fits(t, s, n)
    local d, delay = nil, 0
    if allowed and fit and n > 0 then
      if t.algorithm == 'q' and (s.a > 0 or s.b > 0) then
        delay = s.held - now + ceil(s.a, s.b)
      end
      take(t, s, n)
      account.took = account.took + n
    end
    d = describe(t, s, n, fit)
    if mode == 'peek' or not allowed then
      d[1], d[3] = before[1], before[3]
      if fit then
        d[4] = before[4]
      end
    end
    addDecision(t, d, delay)
  end
  decide(account.n)
  if account.shadow then
    decide(account.shadow)
  end
  if mode == 'share' then
    add(before[1], before[3], before[4], alone, s.held)
  end
end

for _ = 1, rounds or 1 do
  allowed = true
  for _, account in ipairs(accounts) do
    allowed = allowed and fits(account.t, account.s, account.n)
  end
  for _, account in ipairs(accounts) do
    one(account)
  end
  if not allowed then
    break
  end
end
if rounds then
  add(allowed and 1 or 0)
end

for i, account in ipairs(accounts) do
  if account.took > 0 and mode ~= 'peek' then
    write(KEYS[i], account.t, account.s)
  end
end
return reply
