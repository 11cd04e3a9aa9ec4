-- Tell which lease ran out first, and do nothing about it.
-- KEYS[1] emq:{q}:active
-- The id of that job, or nil where no lease is over, by the server's clock.
-- A specimen of a bug where later commands move the job; emq_reap.lua does it in one step.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1)[1] or false
