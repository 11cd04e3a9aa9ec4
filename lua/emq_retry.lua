-- Give a failed job back for later, or bury it after its last attempt; by the latest claim.
-- KEYS[1] emq:{q}:active   KEYS[2] row   KEYS[3] pending   KEYS[4] schedule   KEYS[5] dead
-- ARGV[1] id   ARGV[2] the attempts of our claim   ARGV[3] delay in ms
-- ARGV[4] attempts allowed   ARGV[5] the error
-- scheduled or dead.  EMQSTALE: claimed again since, or there is no such row.
local attempts = redis.call('HGET', KEYS[2], 'attempts')
if attempts ~= ARGV[2] then
  local is = attempts and 'at attempt ' .. attempts or 'gone'
  return redis.error_reply('EMQSTALE retry: the job is ' .. is)
end
local time = redis.call('TIME')
local again = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[3]
local last = tonumber(attempts) >= tonumber(ARGV[4])
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then
  redis.call('ZREM', KEYS[3], ARGV[1])
end
if last then
  redis.call('HSET', KEYS[2], 'state', 'dead', 'last_error', ARGV[5])
  redis.call('ZADD', KEYS[5], 0, ARGV[1])
  return 'dead'
end
redis.call('HSET', KEYS[2], 'state', 'scheduled', 'last_error', ARGV[5])
redis.call('ZADD', KEYS[4], again, ARGV[1])
return 'scheduled'
