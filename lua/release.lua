-- Give the lock up, but only while it is still ours.
-- KEYS[1] the lock   ARGV[1] the token we stored in it
-- 1: it was ours and is gone.  0: it lapsed, or it is somebody else's by now.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
