-- State.Reserve of package pace, as one step. KEYS[1] is a hash of the State's numbers. ARGV are the
-- Ask: rate, burst, want, least, unused, spent, hold, row, passed, patience; and the time of a test, '' for the server's.
-- It returns the Slots: n, wait, moved, held.
-- The names of numbers, of functions and of times are those of the package.
local most, horizon, longHold, back, mostAhead, leastKept, express, scatter, hurried = 1e9, .5, 75, 5, 3600, 600, 5, 1.5, 2

local ask = {}
for i = 1, 10 do
  local x = tonumber(ARGV[i])
  if not (x and math.abs(x) <= most and (x >= 0 or i == 6)) then return redis.error_reply('ERR number ' .. i .. ' of the Ask makes no sense') end
  ask[i] = x
end
local rate, burst, want, least, unused, spent, hold, row, pass, patience = unpack(ask)
if rate < 1 / most or burst < 1 then return redis.error_reply('ERR the Ask has a Rate of zero, or a Burst below one') end

local now = tonumber(ARGV[11])
if not now then
  local t = redis.call('TIME')
  now = t[1] + t[2] / 1e6
end
local names, needed = {'tat', 'at', 'moved', 'until', 'passed', 'ahead', 'free', 'freed'}, 4 -- the others are 0 if they are not there
local state, there, lacks = {}, 0, false
for i, v in ipairs(redis.call('HMGET', KEYS[1], unpack(names))) do
  state[i] = v and tonumber(v) or 0
  if v then there = there + 1 end
  lacks = lacks or not v and i <= needed or v and not (tonumber(v) and math.abs(state[i]) <= 1e12)
end
local length = redis.call('HLEN', KEYS[1])
if length > 0 and (lacks or length ~= there) then return redis.error_reply('ERR the key has something else than a quota') end
local tat, at, moved, till, passed, ahead, free, freed = unpack(state)

-- advance
local gap = 1 / rate
local bucket = burst * gap
if length == 0 or at == 0 then
  tat, moved, till, passed, ahead, free, freed = now - bucket, -now, 0, 0, 0, 0, 0
elseif now - at < -back then
  local by = now - at
  tat = now + math.min(math.max(tat - at, -bucket), mostAhead)
  till, passed, ahead, freed = till + by, passed + by, ahead + by, freed + by
else
  now = math.max(now, at)
end
ahead = math.max(ahead, now)
if tat > now and freed < now then free = free * ((tat - now) / (tat - freed)) end
freed = math.max(freed, now)

if pass > 0 then passed = math.max(passed, now - pass) end

-- takeBack
if tat > now then
  free, unused = free + unused, 0
end
tat = math.max(tat + (spent - unused) * gap, now - bucket)
free = math.min(free, math.max(tat - freed, 0) / gap)

-- hold
local ends = now + math.min(hold, longHold)
if passed <= now - row and hold > 0 and ends > till then
  local by = ends - math.max(till, now)
  tat, ahead, freed = math.max(tat, now) + by, ahead + by, freed + by
  moved, till = moved + by, ends
  redis.call('PUBLISH', KEYS[1], 'held')
end

-- giveFree, giveAhead, or give
local n, wait = 0, 0
if want > 0 then
  least = math.max(least, math.min(want, 1))
  wait = tat + least * gap - now
  local every = least * gap * express
  if free >= scatter * least and freed - now < math.min(wait, patience) then
    n, wait = least, freed - now - (least - 1) * gap
    freed = freed + scatter * least * (tat - freed) / free
    free = free - scatter * least
  elseif wait > patience and patience < hurried and every <= hurried and ahead - now <= patience then
    n, wait = least, ahead - now - (least - 1) * gap
    ahead = ahead + every
    tat = tat + least * gap
  elseif wait <= patience then
    local dither = now * 618.0339887 % 1
    n = math.min(want, math.max(math.floor((now + horizon - tat) * rate / 2 + dither), least))
    wait = tat + gap - now
    tat = tat + n * gap
  end
end

local text = {}
for i, x in ipairs({tat, now, moved, till, passed, ahead, free, freed}) do text[2 * i - 1], text[2 * i] = names[i], string.format('%.17g', x) end
redis.call('HMSET', KEYS[1], unpack(text))
redis.call('PEXPIRE', KEYS[1], math.ceil(math.min(math.max(tat - now + bucket, leastKept), most) * 1e3))
return {string.format('%.17g', n), string.format('%.17g', wait), string.format('%.17g', moved), string.format('%.17g', math.max(till - now, 0))}
