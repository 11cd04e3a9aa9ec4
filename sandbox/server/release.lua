-- A claimed database is emptied and given back in one step; one that this site
-- has not claimed is left alone.
local lent, number, site = KEYS[1], ARGV[1], ARGV[2]
if redis.call('HGET', lent, number) ~= site then return 0 end
redis.call('SELECT', number)
redis.call('FLUSHDB')
redis.call('SELECT', 0)
redis.call('HDEL', lent, number)
return 1
