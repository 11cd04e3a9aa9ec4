-- A specimen of a bug: the fence is compared as text, and as text '10' comes before '9'.
-- KEYS[1] the resource, a hash of fence and value   ARGV[1] our fence   ARGV[2] the value
-- 1: written.  0: refused. Right up to 9; at 10 the new holder is out and the old one in.
-- Both sides arrive as strings, so nothing complains. fenced_write.lua compares numbers.
local seen = redis.call('HGET', KEYS[1], 'fence')
if seen and ARGV[1] < seen then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
return 1
