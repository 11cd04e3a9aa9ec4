-- Write, but only with a fence higher than the highest seen: one write for each grant.
-- KEYS[1] the resource, a hash of fence and value   ARGV[1] our fence   ARGV[2] the value
-- 1: written.  0: an older holder, or the same one's second write or retry: no telling.
-- A specimen, shown for what it refuses. fenced_write.lua is the one to use.
local seen = redis.call('HGET', KEYS[1], 'fence')
if seen and tonumber(ARGV[1]) <= tonumber(seen) then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
return 1
