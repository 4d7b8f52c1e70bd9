-- Tells what server this is, and that it runs scripts and takes writes.
--
-- KEYS   a key that nothing else uses
-- reply  INFO server, INFO memory

redis.call('SET', KEYS[1], '1', 'PX', 1000)
return { redis.call('INFO', 'server'), redis.call('INFO', 'memory') }
