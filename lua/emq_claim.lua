-- Lease the oldest pending job to the caller, until a moment on the server's clock.
-- KEYS[1] emq:{q}:pending   KEYS[2] emq:{q}:active
-- ARGV[1] prefix of the rows, emq:{q}:job:   ARGV[2] lease in ms
-- {id, payload, attempts}: attempts is the fence of this claim.  {}: nothing is pending.
-- Only ZPOPMIN tells the id, so the row's key is undeclared; the hash tag keeps its slot.
local time = redis.call('TIME')
local ends = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2]
local id = redis.call('ZPOPMIN', KEYS[1])[1]
if not id then
  return {}
end
local row = ARGV[1] .. id
local attempts = redis.call('HINCRBY', row, 'attempts', 1)
redis.call('HSET', row, 'state', 'active')
redis.call('ZADD', KEYS[2], ends, id)
return {id, redis.call('HGET', row, 'payload'), attempts}
