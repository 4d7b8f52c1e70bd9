-- Replies which server this is. It reads no key: a proxy may choose the server by it.
--
-- KEYS   a key
-- ARGV   the number of the call
-- reply  that number, and the run_id of the server: 40 hexadecimal digits, new with each start; no
--        digits if it has none

local id = string.match(redis.call('info', 'server'), 'run_id:(%x*)') or ''
return ARGV[1] .. ' ' .. id
