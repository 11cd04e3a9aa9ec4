-- A specimen of a bug: renew the lock if it is ours, and if nobody has it take it again.
-- KEYS[1] the lock   ARGV[1] the token   ARGV[2] the lease in ms
-- 1: ours, renewed or taken anew: the reply hides which.  0: somebody else holds it.
-- After a lapse another holder may have come and gone; the 1 says that all is well.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
