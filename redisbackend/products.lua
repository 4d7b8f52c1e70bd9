-- Products that may pass 2^53.

-- muldiv returns the quotient and remainder of a*m/d, for a <= d < 2^45 and m < 2^35. It divides
-- by digits of seven bits, so that no product passes 2^53.
muldiv = function(a, m, d)
  local product = a * m
  if product < 9007199254740992 then
    local q = floor(product / d)
    return q, product - q * d
  end
  local q, r = 0, 0
  for _, power in ipairs({ 268435456, 2097152, 16384, 128, 1 }) do
    local x = r * 128 + a * (floor(m / power) % 128)
    local digit = floor(x / d)
    q, r = q * 128 + digit, x - digit * d
  end
  return q, r
end

-- timeOf returns the quotient and remainder of P*n/Q: the time in which n units drain, if one
-- drains in P/Q.
timeOf = function(P, Q, n)
  local whole = floor(P / Q)
  local us, frac = muldiv(P - whole * Q, n, Q)
  return n * whole + us, frac
end
