-- A specimen of a bug: renewal that adds to the time left instead of setting it.
-- KEYS[1] the lock   ARGV[1] the token we stored in it   ARGV[2] ms to add
-- 1: ours, and it ends ARGV[2] ms later than it would have.  0: not ours any more.
-- Each beat leaves more on the clock, so a crash keeps everybody out for longer.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[1]) + ARGV[2])
