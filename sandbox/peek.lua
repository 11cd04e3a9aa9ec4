-- What a key holds, for drawing it: its type, its content (cut where it is
-- long), and its lease in milliseconds (-1 none, -2 no such key).
local key, most = KEYS[1], 64
local kind = redis.call('TYPE', key)
if type(kind) == 'table' then kind = kind.ok end
local value = false
if kind == 'string' then
  value = redis.call('GETRANGE', key, 0, 4095)
elseif kind == 'hash' then
  value = redis.call('HGETALL', key)
elseif kind == 'list' then
  value = redis.call('LRANGE', key, 0, most - 1)
elseif kind == 'set' then
  value = redis.call('SMEMBERS', key)
  table.sort(value)
elseif kind == 'zset' then
  value = redis.call('ZRANGE', key, 0, most - 1, 'WITHSCORES')
elseif kind == 'stream' then
  value = redis.call('XRANGE', key, '-', '+', 'COUNT', most)
end
if type(value) == 'table' then
  for i = #value, 2 * most + 1, -1 do value[i] = nil end
end
return {kind, value, redis.call('PTTL', key)}
