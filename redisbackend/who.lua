-- Replies which server this is. It reads no key: a proxy may choose the server by it.
--
-- KEYS   a key
-- reply  the run_id of the server: 40 hexadecimal digits, new with each start; none if it has none

return string.match(redis.call('info', 'server'), 'run_id:(%x*)') or ''
