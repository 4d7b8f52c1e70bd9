-- Replies which server this is. It reads no key: a proxy may choose the server by it.
--
-- KEYS   a key
-- reply  the run_id of the server: 40 hexadecimal digits, new with each start, and " cluster" behind
--        them if it is a node of a Cluster. Nothing if it has none, or if the user may not call INFO

local allows = redis.acl_check_cmd or type -- Redis 6.2 cannot be asked
local known, allowed = pcall(allows, 'info', 'server')
if known and not allowed then
  return '' -- a refused command would be an entry of ACL LOG
end
local info = redis.pcall('info', 'server')
local id = type(info) == 'string' and string.match(info, 'run_id:(%x+)')
if id and string.find(info, '_mode:cluster', 1, true) then
  return id .. ' cluster'
end
return id or ''
