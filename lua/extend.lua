-- Renew the lease from now on, but only while the lock is still ours.
-- KEYS[1] the lock   ARGV[1] the token we stored in it   ARGV[2] the new lease in ms
-- 1: ours, until ARGV[2] ms from now.  0: lapsed, or somebody else's by now: stop working.
-- Nothing guards the number: a lease of 0 or less deletes the lock, and that reads 1 too.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
