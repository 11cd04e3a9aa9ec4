-- Renew a job's lease from now on, if our claim is the latest one and has not been reaped.
-- KEYS[1] emq:{q}:active   KEYS[2] the row
-- ARGV[1] id   ARGV[2] the attempts of our claim   ARGV[3] lease in ms
-- 1: renewed.  0: there is no such row.  EMQSTALE: claimed again since, or reaped: stop.
local attempts = redis.call('HGET', KEYS[2], 'attempts')
if not attempts then
  return 0
end
if attempts ~= ARGV[2] then
  return redis.error_reply('EMQSTALE extend: the job is at attempt ' .. attempts)
end
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return redis.error_reply('EMQSTALE extend: the job is no longer active')
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
return 1
