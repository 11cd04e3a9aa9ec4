-- Renew the leases of many jobs in one call, all from the same moment.
-- KEYS[1] emq:{q}:active   KEYS[2..] the rows
-- ARGV[1] lease in ms, then for each row: id, the attempts of the caller's claim
-- The ids that were not renewed: no row, or claimed again since. Best is an empty list.
-- Like emq_extend.lua it doesn't ask whether a job is active.
local time = redis.call('TIME')
local ends = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1]
local lost = {}
for i = 2, #KEYS do
  local id, claim = ARGV[2 * i - 2], ARGV[2 * i - 1]
  if redis.call('HGET', KEYS[i], 'attempts') == claim then
    redis.call('ZADD', KEYS[1], ends, id)
  else
    table.insert(lost, id)
  end
end
return lost
