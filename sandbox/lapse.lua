-- The lease of a key runs out now: 1 done, 0 no such key, -1 no lease on it.
local left = redis.call('PTTL', KEYS[1])
if left == -2 then return 0 end
if left == -1 then return -1 end
redis.call('PEXPIRE', KEYS[1], 0)
return 1
