-- Decides n units, at most the maximum, of a state under a limit, and takes them if they fit. It is
-- no function, but a piece of one: take.lua and state.lua have it.
--
--   reads  algorithm, most, P, Q    the limit: a unit comes with every P/Q microseconds, in lowest
--                                   terms for buckets; for windows and logs P is the period, and Q
--                                   the units of a period; for bans Q is how long one lasts; for
--                                   concurrency limits P is how long a unit is held unless it is
--                                   renewed
--          asOf                     the instant, no earlier than at
--          at, a, b                 the state; 0, 0, 0 is that of a key that has used nothing
--          debt                     what windows owe, nil for nothing
--          isRead                   the state was read: others may have written it
--          muldiv, timeOf           see products.lua; a window may go without if P times the units is
--                                   below 2^53, and a bucket if Q is 1
--   sets   fits                     nil if nobody can have written the state under this limit
--          at, a, b                 the state then, which has taken the units if they fit
--          left                     the units that remain in it
--          reset                    the time until it equals one that has used nothing
--          window                   if they fit, the effective window; otherwise the wait until they do
--          extra                    of windows the debt, of buckets the level before they took
--
-- To take no units always fits. The first part of the file of a family is its piece.

if algorithm == 't' or algorithm == 'l' or algorithm == 'q' then -- token bucket, leaky bucket, queue
  --- bucket
elseif algorithm == 'f' or algorithm == 's' then -- fixed window, sliding window
  --- window
elseif algorithm == 'n' then
  --- anchored window
elseif algorithm == 'b' then
  --- ban
else
  --- concurrent
end
