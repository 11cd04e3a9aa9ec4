-- Add a job to a queue.
-- KEYS[1] emq:{q}:pending   KEYS[2] row, emq:{q}:job:<id>   ARGV[1] id   ARGV[2] payload
-- 1: queued.  0: a job with this id exists.  EMQKIND: the id doesn't begin with JOB.
-- Every score is 0, so ids stand in byte order: oldest first, if ids grow with time.
if ARGV[1]:sub(1, 3) ~= 'JOB' then
  return redis.error_reply('EMQKIND a job id begins with JOB')
end
if redis.call('EXISTS', KEYS[2]) == 1 then
  return 0
end
redis.call('HSET', KEYS[2], 'state', 'pending', 'attempts', '0', 'payload', ARGV[2])
redis.call('ZADD', KEYS[1], 0, ARGV[1])
return 1
