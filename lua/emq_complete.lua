-- Retire a job that is done, if the caller's claim is the latest one.
-- KEYS[1] emq:{q}:active   KEYS[2] the row   KEYS[3] emq:{q}:pending
-- ARGV[1] id   ARGV[2] the attempts of the caller's claim
-- 1: retired, its row deleted.  0: there is no such row.  EMQSTALE: claimed again since.
-- Reaped but not yet claimed again, the number still fits: the job is taken out of pending.
local attempts = redis.call('HGET', KEYS[2], 'attempts')
if not attempts then
  return 0
end
if attempts ~= ARGV[2] then
  return redis.error_reply('EMQSTALE complete: the job is at attempt ' .. attempts)
end
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then
  redis.call('ZREM', KEYS[3], ARGV[1])
end
redis.call('DEL', KEYS[2])
return 1
