-- A fingerprint of the whole database: the SHA1 of every key's name, type,
-- content and lease, the number of keys, and the shortest lease in milliseconds
-- (-1 where there is none). Leases, and numbers that are server times in
-- milliseconds, count as whole seconds from now: two histories that led to the
-- same state are equal although one of them took a few milliseconds longer.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local day = 86400000

local out = {}
local function put(s)
  out[#out + 1] = #s .. ':' .. s
end

local function content(s)
  if #s == 13 and string.find(s, '^%d+$') then
    local away = tonumber(s) - now
    if away > -day and away < day then
      s = 'now' .. string.format('%+d', math.ceil(away / 1000))
    end
  end
  put(s)
end

-- pairs of a flat reply, by their first half
local function sorted(flat)
  put(tostring(#flat))
  local keys, of = {}, {}
  for i = 1, #flat, 2 do
    keys[#keys + 1] = flat[i]
    of[flat[i]] = flat[i + 1]
  end
  table.sort(keys)
  for _, k in ipairs(keys) do
    put(k)
    content(of[k])
  end
end

local names = redis.call('KEYS', '*')
table.sort(names)
local shortest = -1
for _, name in ipairs(names) do
  local kind = redis.call('TYPE', name)
  if type(kind) == 'table' then kind = kind.ok end
  put(name)
  put(kind)
  if kind == 'string' then
    content(redis.call('GET', name))
  elseif kind == 'hash' then
    sorted(redis.call('HGETALL', name))
  elseif kind == 'list' then
    local items = redis.call('LRANGE', name, 0, -1)
    put(tostring(#items))
    for _, v in ipairs(items) do content(v) end
  elseif kind == 'set' then
    local members = redis.call('SMEMBERS', name)
    table.sort(members)
    put(tostring(#members))
    for _, v in ipairs(members) do content(v) end
  elseif kind == 'zset' then
    sorted(redis.call('ZRANGE', name, 0, -1, 'WITHSCORES'))
  elseif kind == 'stream' then
    local entries = redis.call('XRANGE', name, '-', '+')
    put(tostring(#entries))
    for _, entry in ipairs(entries) do
      put(tostring(#entry[2]))
      for _, v in ipairs(entry[2]) do content(v) end
    end
  end
  local left = redis.call('PTTL', name)
  if left >= 0 then
    if shortest < 0 or left < shortest then shortest = left end
    left = math.ceil(left / 1000)
  end
  put(tostring(left))
end
return {redis.sha1hex(table.concat(out)), #names, shortest}
