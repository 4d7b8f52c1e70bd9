-- Limits, as scripts are given them and states start with them:
--   "1" algorithm " " most " " P " " Q      1 is the version
-- A unit comes with every P/Q microseconds, in lowest terms for buckets. For windows
-- and logs P is the period, and Q the units of a period; for bans Q is how long one
-- lasts; for concurrency limits P is how long a unit is held unless it is renewed.
--
-- A family of algorithms is a function that decides:
--   decide(limit, asOf, at, a, b, n, debt, isRead)
-- brings the state at, a, b forward to asOf, no earlier than at, and takes n units, at most the
-- maximum, if they fit. It returns nil if the state was read and nobody can have written it under
-- this limit. Otherwise
--   whether they fit
--   the state then, which has taken them if they fit
--   the units that remain in it
--   the time until it equals one that has used nothing
--   if they fit, the effective window; otherwise the wait until they do
--   of windows the debt, of buckets the level before they took
-- To take no units always fits. A key that has used nothing has the state 0, 0, 0.

-- newLimit returns the limit in a text, nil if there is none.
local function newLimit(text)
  local algorithm, most, P, Q = match(text, '^1([tlqfsngbc]) (%d+) (%d+) (%d+)$')
  if not algorithm then
    return nil
  end
  most, P, Q = most + 0, P + 0, Q + 0
  if P < 1 or Q < 1 or most >= 9007199254740992 or P >= 9007199254740992 or Q >= 9007199254740992 then
    return nil
  end
  local decide -- nil for logs
  if algorithm == 't' or algorithm == 'l' or algorithm == 'q' then -- token bucket, leaky bucket, queue
    --- bucket
    decide = bucket
  elseif algorithm == 'f' or algorithm == 's' then -- fixed window, sliding window
    --- window
    decide = window
  elseif algorithm == 'n' then
    --- anchored window
    decide = anchoredWindow
  elseif algorithm == 'b' then
    --- ban
    decide = ban
  end
  local unitTime = floor(P / Q)
  local limit = {
    text = text, algorithm = algorithm, most = most, P = P, Q = Q,
    unitTime = unitTime, unitFrac = P - unitTime * Q, decide = decide,
  }
  if algorithm == 'c' then
    --- concurrent
    limit.decide, limit.held, limit.hold = concurrent, held, hold
    limit.after, limit.ends = format('(%.0f', now), format('%.0f', now + P) -- units count that end between
  end
  return limit
end
