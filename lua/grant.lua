-- Take the lease and mint its number in one step: numbers follow the order of grants.
-- KEYS[1] the lock   KEYS[2] the counter   ARGV[1] token   ARGV[2] lease in ms
-- The number of this grant, or nil while somebody holds the lock.
-- The number comes first: without one there is no lease, and an unused one does no harm.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return false
end
local fence = redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return fence
