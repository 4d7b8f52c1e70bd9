-- Cleans the texts of errors. Scripts include this file where they have an error, and declare errorOf.

-- textOf returns the text of an error, which is a text or a table of redis.pcall, as one line. Where
-- a server refuses a command of a script, Redis 6.2 has it as in the protocol: "-OOM ...\r\n".
local function textOf(why)
  why = type(why) == 'table' and why.err or why
  return (string.gsub(string.gsub(string.gsub(why, '^%-', ''), '%s+$', ''), '%c', ' '))
end

-- errorOf returns an error as a part of a reply.
errorOf = function(why)
  why = textOf(why)
  if string.match(why, 'WRONGTYPE') then
    why = 'WEIR a key holds a value of another type, perhaps of another program: delete the key'
  end
  return ' !' .. (string.match(why, '^WEIR') and why or 'ERR ' .. why) .. '\n'
end
