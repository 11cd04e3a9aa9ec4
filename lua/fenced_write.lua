-- Write, unless a newer holder has written: a fence may equal the highest seen, no less.
-- KEYS[1] the resource, a hash of fence and value   ARGV[1] the fence   ARGV[2] the value
-- 1: written, and this fence is the highest seen.  0: the writer is stale, nothing changed.
-- Compared as numbers: as text '10' < '9'. Exact up to 15 digits; more are an error.
if not ARGV[1]:match('^%d+$') or #ARGV[1] > 15 then
  return redis.error_reply('ERR the fence must be a whole number of at most 15 digits')
end
local seen = redis.call('HGET', KEYS[1], 'fence')
if seen and tonumber(ARGV[1]) < tonumber(seen) then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
return 1
