-- Releases units of concurrency limits. Releasing a unit again does nothing.
--
-- KEYS   the keys; a key may occur several times
-- ARGV   the number of the call
--        for each key the ids of its units, 12 bytes each
--        anything after that is ignored
-- reply  the number of the call
--        for each key how many of its units were held, or an error as in take.lua

local function release(key, ids)
  local released, arguments = 0, {}
  for at = 1, #ids, 12 do
    arguments[#arguments + 1] = string.sub(ids, at, at + 11)
    if #arguments == 1000 or at + 12 > #ids then
      local n = redis.pcall('ZREM', key, unpack(arguments))
      if type(n) ~= 'number' then
        local errorOf
        --- error
        return errorOf(n)
      end
      released, arguments = released + n, {}
    end
  end
  return string.format(' %d', released)
end

local reply = { ARGV[1] }
for i = 1, #KEYS do
  reply[i + 1] = release(KEYS[i], ARGV[i + 1])
end
return table.concat(reply)
