-- State.Reserve of package pace, as one step. KEYS[1] is a hash of the State's numbers. ARGV are the
-- Ask: rate, burst, want, least, unused, hold, patience; and the time of a test, '' for the server's.
-- It returns the Slots: n, wait, moved.
local most, a = 1e9, {}
for i = 1, 7 do
  a[i] = tonumber(ARGV[i])
  if not (a[i] and a[i] >= 0 and a[i] <= most) then return redis.error_reply('ERR number ' .. i .. ' of the Ask makes no sense') end
end
local rate, burst, want, least, unused, hold, patience = unpack(a)
if rate < 1 / most or burst < 1 then return redis.error_reply('ERR the Ask is of a quota of nothing') end

local now = tonumber(ARGV[8])
if not now then
  local t = redis.call('TIME')
  now = t[1] + t[2] / 1e6
end
local names, kept, s = {'tat', 'at', 'moved', 'until'}, 0, {}
for i, v in ipairs(redis.call('HMGET', KEYS[1], unpack(names))) do
  s[i] = v and tonumber(v)
  kept = kept + (s[i] and s[i] >= -1e12 and s[i] <= 1e12 and 1 or 0)
end
local length = redis.call('HLEN', KEYS[1])
if length > 0 and not (length == 4 and kept == 4) then return redis.error_reply('ERR the key has something else than a quota') end

local tat, at, moved, till = s[1], s[2], s[3], s[4]
local gap = 1 / rate
local bucket = burst * gap
if length == 0 then
  tat, moved, till = now - bucket, -now, 0
elseif now < at - 5 or now > at + 3600 then
  tat, till = now + math.min(math.max(tat - at, -bucket), 600), till + (now - at)
else
  now = math.max(now, at)
end
tat = math.max(tat - unused * gap, now - bucket)
local ends = now + math.min(hold, 75)
if hold > 0 and ends > till then
  local by = ends - math.max(till, now)
  tat, moved, till = math.max(tat, now) + by, moved + by, ends
  redis.call('PUBLISH', KEYS[1], 'held')
end
local n = math.min(want, math.max(math.floor((now + .5 - tat) * rate / 2), least))
local first, ready = tat + gap, tat + math.max(least, 1) * gap
if n > 0 and ready - now > patience then n = 0 end
local wait = n > 0 and first - now or math.max(ready - now, 0)
tat = tat + n * gap

local text = {}
for i, x in ipairs({tat, now, moved, till}) do text[2 * i - 1], text[2 * i] = names[i], string.format('%.17g', x) end
redis.call('HMSET', KEYS[1], unpack(text))
redis.call('PEXPIRE', KEYS[1], math.ceil(math.max(tat - now, 0) * 1e3) + 600000)
return {string.format('%.17g', n), string.format('%.17g', wait), string.format('%.17g', moved)}
