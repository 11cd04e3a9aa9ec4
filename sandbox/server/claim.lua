-- On a server of somebody else's, a database is claimed before it is lent: 1
-- claimed, and empty; 0 another site that lives has it; -1 it holds keys that
-- no site put there. What a site that died left behind is flushed.
local lent, number, site = KEYS[1], ARGV[1], ARGV[2]
local holder = redis.call('HGET', lent, number)
if holder and holder ~= site and redis.call('EXISTS', 'lockstep:site:' .. holder) == 1 then
  return 0
end
redis.call('SELECT', number)
if redis.call('DBSIZE') > 0 then
  if not holder then
    redis.call('SELECT', 0)
    return -1
  end
  redis.call('FLUSHDB')
end
redis.call('SELECT', 0)
redis.call('HSET', lent, number, site)
return 1
