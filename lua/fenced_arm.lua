-- Raise a resource's fence to our number and keep its value: done before the first read.
-- KEYS[1] the resource, a hash of fence and value   ARGV[1] our fence
-- 1: armed. Older holders are refused from now on: none can change what we read next.
-- 0: a newer holder has been here: stop.
local seen = redis.call('HGET', KEYS[1], 'fence')
if seen and tonumber(ARGV[1]) < tonumber(seen) then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
return 1
