-- Write, unless a newer holder has written: a fence may equal the highest seen, never be lower.
-- KEYS[1] the resource, a hash of fence and value   ARGV[1] the writer's fence   ARGV[2] the value
-- 1: written, and this fence is the highest seen.  0: the writer is stale, and nothing changed.
-- Compared as numbers: as text '10' < '9'. Up to 15 digits they are exact; longer is an error.
if not ARGV[1]:match('^%d+$') or #ARGV[1] > 15 then
  return redis.error_reply('ERR the fence must be a whole number of at most 15 digits')
end
local seen = redis.call('HGET', KEYS[1], 'fence')
if seen and tonumber(ARGV[1]) < tonumber(seen) then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
return 1
