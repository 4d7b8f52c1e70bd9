-- Checks that this server runs scripts, takes writes and allows the commands of decisions, and
-- replies what server it is.
--
-- KEYS   a key that nothing else uses
-- ARGV   the number of the call
-- reply  the number of the call, TIME in microseconds, and the text of INFO server and memory;
--        or the first error, "; commands: " and the names of all commands that failed

local failed, why, errorOf = {}, nil, nil
--- error
local function call(name, ...)
  local reply = redis.pcall(name, ...)
  if type(reply) == 'table' and reply.err then
    why = why or textOf(reply)
    if failed[#failed] ~= name then
      failed[#failed + 1] = name
    end
  end
  return reply
end

local time = call('time')
call('set', KEYS[1], '1', 'PX', 1000)
call('get', KEYS[1])
call('exists', KEYS[1])
call('getrange', KEYS[1], 0, 0)
call('del', KEYS[1])
local server, memory = call('info', 'server'), call('info', 'memory')
if why then
  return redis.error_reply(why .. '; commands: ' .. table.concat(failed, ' '))
end
return string.format('%s %.0f %s%s', ARGV[1], time[1] * 1000000 + time[2], server, memory)
