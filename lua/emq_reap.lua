-- Return jobs whose lease is over, by the server's clock, to pending: up to 100 in a call.
-- KEYS[1] emq:{q}:active   KEYS[2] emq:{q}:pending   ARGV[1] the rows' prefix, emq:{q}:job:
-- How many went back.
-- attempts stays: it counts claims. The next claim, not the reap, fences the late worker.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 100)
for _, id in ipairs(due) do
  redis.call('ZREM', KEYS[1], id)
  redis.call('ZADD', KEYS[2], 0, id)
  redis.call('HSET', ARGV[1] .. id, 'state', 'pending')
end
return #due
