-- Ask whether the lock is ours, and do nothing about it.
-- KEYS[1] the lock   ARGV[1] the token we stored in it
-- 1: it was ours when the server looked.  0: it was not.
-- A specimen of a bug wherever something is done on the strength of a 1: it may be stale.
return redis.call('GET', KEYS[1]) == ARGV[1] and 1 or 0
