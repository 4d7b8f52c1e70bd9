-- Bans count units in periods that each start with a key's first unit. The charge that
-- reaches the number bans the key.
--
--   at   the start of the period
--   a    the instant at which the ban ends; 0: there is none
--   b    the units in the period

if not isRead or b <= 4294967295 and (a == 0 or a > at) and a < 9007199254740992 then
  if asOf >= (a > 0 and a or b > 0 and at + P or at) then
    at, a, b = asOf, 0, 0
  end
  fits = a == 0
  if fits and n > 0 then
    if b == 0 then
      at = asOf
    end
    b = b + n
    if b >= most then
      a = asOf + Q
    end
    if b > 4294967295 then
      b = 4294967295
    end
  end
  left, reset = 0, a - asOf
  if a == 0 then
    left = b < most and most - b or 0
    reset = b > 0 and at + P - asOf or 0
  end
  window = reset > 0 and reset or P
end

--- more

families.ban = function()
  return {
    bans = true,

    encode = function()
      return false
    end,

    read = function()
      return false
    end,

    used = function(s)
      return s.b
    end,

    rebase = function(s, back)
      back.a, back.b = s.a > 0 and now + s.limit.Q or 0, s.b
    end,

    -- What is charged during a ban is ignored.
    owe = function(s, n)
      n = s.a > 0 and 0 or max(0, min(n, 2 * s.limit.most - s.b))
      if n > 0 then
        local _
        _, s.at, s.a, s.b = decide(s.limit, s.asOf, s.at, s.a, s.b, n)
      end
      return n
    end,

    -- Of a count that is as large as there are nobody knows how much of it there would be.
    refund = function(s, n, final, ticket)
      if ticket < s.at or ticket >= s.at + s.limit.P or s.b == 4294967295 then
        return 0
      end
      n = min(n, s.b)
      s.b = s.b - n
      if s.b < s.limit.most then
        s.a = 0
      end
      keep(s, n > 0 and s.b == 0)
      return n
    end,
  }
end
