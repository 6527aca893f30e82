-- The law of package fleetpace once more, because only a script is one step in Redis. It
-- does what State.Apply does, in the same order and under the same names: the reasons are
-- there, and TestScriptIsTheLaw compares the two. What begins with trial_ or spare_ is of
-- package internal/trial: of its Trial, and of its Respite.
--
-- KEYS[1] has the State as text, and is the channel of the news. ARGV has what is told, in
-- the order of the following words; a time that is no number means the server's. The reply
-- is an Answer as text.
local told = {
  'now', 'random', 'epoch', 'round', 'rate', 'counted', 'started', 'hits', 'fresh', 'hint', 'hold', 'returned',
  'take', 'patience', 'costs', 'priced',
}
local version = '1'
local names = {
  'epoch', 'mode', 'round', 'rate', 'share', 'calm', 'got', 'lost', 'span', 'passed', 'was', 'cut', 'sure', 'clean',
  'trial_top', 'trial_round', 'trial_before', 'trial_cut', 'trial_share', 'trial_seen', 'trial_sent', 'trial_lost',
  'spare_left', 'spare_base', 'spare_again', 'spare_verdicts',
  'head', 'tail', 'gaps', 'at', 'hold', 'busy', 'since', 'sent', 'hits', 'mean',
}
local expires = 600 -- seconds

local max_hold, spread, quiet, slow, known, lowest, highest, jumps = 60, .25, 10, 8, 300, 1 / 60, 1e9, 60
local window, grace, trips, some, watched = 1, .25, 4, 1 / 8, 64
local memory, enough, fallen, apart, recent, least, shows = 16, 1 / 4, 1 / 4, 1, 4, 64, 2
local calmly, near, half, forget, back, seek, spared, each, fast = 2000, .9, .5, 60, .1, .1, .02, .0002, .02
local lower, skip, prices = .75, 4, 64
local exact = 2 ^ 53
local open, counting, held, paced = 0, 1, 2, 3

local trial_ask, trial_shown = .85, .03
local trial_gap, trial_quick, trial_unmoved, trial_least, trial_fewer, trial_more = 7, 4.4, .35, 12, .5, 1.4
local trial_leap, trial_luck, trial_respite, trial_longest, trial_beyond, trial_usual, trial_most = 2, 3, 20, 8, 1.5, .2, .5
local trial_undecided, trial_other, trial_same = 0, 1, 2

local min, max, exp, floor, sqrt = math.min, math.max, math.exp, math.floor, math.sqrt

local function finite(x) return x and x - x == 0 end

local r = {}
for i, word in ipairs(told) do r[word] = tonumber(ARGV[i]) end
local now = r.now
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) + tonumber(time[2]) / 1e6
end

local s = {}

local function trial_possible()
  return s.trial_share <= 1 and (s.trial_seen == 0 or s.trial_seen == 1) and s.trial_round == floor(s.trial_round)
    and (s.trial_round == 0 or s.trial_top > 0 and s.trial_share > 0)
end

local function spare_possible()
  return s.spare_base <= 1 and s.spare_verdicts <= trial_longest and s.spare_left <= trial_respite * trial_longest
end

local function possible()
  for _, name in ipairs(names) do
    if s[name] < 0 then return false end
  end
  if s.epoch == 0 then
    for _, name in ipairs(names) do
      if s[name] ~= 0 then return false end
    end
    return true
  end
  local function above(x, limit) return x > limit + 1e-9 * limit + 1e-6 end
  return not (s.mode > paced or s.sure > 1 or s.share > 1 or s.tail > exact or s.round > exact
    or s.epoch ~= floor(s.epoch) or s.mode ~= floor(s.mode) or s.sure ~= floor(s.sure) or s.round ~= floor(s.round)
    or s.rate == 0 and s.mode == paced or s.rate ~= 0 and s.rate < lowest or s.rate > highest
    or above(s.lost, s.got) or above(s.head, s.tail + 1) or above(s.gaps, max(s.tail - s.head, 0))
    or s.mode <= counting and above(s.tail, s.head)
    or above(max(s.busy, s.since, s.cut), s.at) or above(s.hold, s.at + max_hold * (1 + spread))
    or not trial_possible() or not spare_possible())
end

local function read(text)
  local words = {}
  if #text <= 1024 then
    for word in string.gmatch(text, '%S+') do words[#words + 1] = word end
  end
  if #words ~= 1 + #names or words[1] ~= version then return false end
  for i, name in ipairs(names) do
    s[name] = tonumber(words[i + 1])
    if not finite(s[name]) or string.find(words[i + 1], '[xX]') then return false end
  end
  return possible()
end
local text = redis.call('GET', KEYS[1])
if not text then
  for _, name in ipairs(names) do s[name] = 0 end
elseif not read(text) then
  return redis.error_reply('ERR retryredis: the key has what is not the text of a State: delete it')
end

local function set_rate(rate)
  s.mode, s.rate, s.cut = paced, min(max(rate, lowest), highest), s.at
  s.round = s.round + 1
end

local function hold_for(hint)
  local d = min(hint, max_hold)
  s.hold = max(s.hold, s.at + d + r.random * spread * d)
end

local function trial_loss(share) return min(2 * share * share / (share + trial_usual), trial_most) end

local function trial_new(top)
  s.trial_top, s.trial_round, s.trial_before, s.trial_cut = top, 0, 0, 0
  s.trial_share, s.trial_seen, s.trial_sent, s.trial_lost = 0, 0, 0, 0
end

local function trial_doubt(rate, passed, share)
  if rate > s.trial_top or passed * s.trial_share > trial_gap then trial_new(rate) end
  s.trial_share = max(share, trial_shown)
end

local function trial_due(rate, share)
  return s.trial_top >= trial_quick and rate <= trial_ask * s.trial_top and trial_shown <= share and share <= trial_unmoved
end

local function trial_begin(round, rate, cut, share)
  s.trial_round, s.trial_before, s.trial_cut, s.trial_share = round, rate, cut, share
end

local function trial_note(n)
  if s.trial_seen == 0 then
    s.trial_seen, s.trial_sent, s.trial_lost = 1, 0, 0
    return
  end
  s.trial_lost = s.trial_lost + n
end

local function trial_part() return min(s.trial_lost / max(s.trial_sent, 1), 1) end -- its method share

local function trial_verdict()
  local expected = s.trial_sent * s.trial_share
  if s.trial_seen == 0 and expected < trial_gap then
    return trial_undecided
  elseif s.trial_seen == 0 then
    return trial_other
  elseif s.trial_lost > trial_leap * expected + trial_luck or s.trial_lost >= trial_more * trial_least then
    return trial_other
  elseif expected < trial_least then
    return trial_undecided
  elseif s.trial_lost < trial_fewer * trial_least then
    return trial_other
  end
  return trial_same
end

local function trial_after(rate)
  local cut = s.trial_cut + (s.trial_before - s.trial_cut) * min(trial_part() / s.trial_share, 1)
  return max(rate, min(cut, s.trial_top * (1 - trial_part())))
end

local function spare_new() s.spare_left, s.spare_base, s.spare_again, s.spare_verdicts = 0, 0, 0, 0 end

local function spare_begin()
  s.spare_base, s.spare_again = (s.trial_share + trial_part()) / 2, s.trial_top
  s.spare_verdicts = min(max(2 * s.spare_verdicts, 1), trial_longest)
  s.spare_left = trial_respite * s.spare_verdicts
end

local function spare_doubt(passed)
  if s.spare_left > 0 and passed * s.spare_base > trial_gap then s.spare_left, s.spare_verdicts = 0, 0 end
end

local function spare_unrelated()
  if s.spare_left > 0 then return s.spare_base end
  return 0
end

local function spare_excess(share, attempts)
  return max(share - s.spare_base - sqrt(s.spare_base * (1 - s.spare_base) / attempts), 0)
end

local function spare_seeks(rate) return s.spare_left > 0 and rate < trial_beyond * s.spare_again end

local function forget_trials()
  trial_new(0)
  spare_new()
end

local function judge()
  local verdict = trial_verdict()
  if verdict == trial_undecided then
    return
  elseif verdict == trial_same then
    spare_begin()
    s.lost = s.spare_base * s.got
    set_rate(s.trial_top)
  elseif verdict == trial_other then
    s.spare_verdicts = s.spare_verdicts / 2
    set_rate(trial_after(s.rate))
  end
  trial_new(0)
end

local function begin()
  for _, name in ipairs(names) do s[name] = 0 end
  s.epoch, s.at, s.round = floor(r.random * 2 ^ 52) + 1, now, r.round + 1
  if r.rate > 0 then
    s.mode, s.rate, s.busy, s.share, s.sure = paced, min(max(r.rate, lowest), highest), now, some, 1
  end
end

local function grow(seconds)
  s.calm = s.calm + seconds
  if s.trial_round > 0 then return end
  local gain = s.calm / calmly + min(each * s.rate, fast)
  if s.rate < max(near * s.passed, half * s.was) then gain = gain + back end
  if s.sure == 0 then
    gain = gain + seek
  elseif spare_seeks(s.rate) then
    gain = gain + spared
  end
  gain = gain * min(max(s.rate, s.rate * s.calm / memory), 1)
  s.rate = min(s.rate + s.rate * min(seconds * gain, 1), highest)
end

local function speed()
  local given = s.tail - s.head
  if s.gaps <= 0 or given <= 0 then return s.rate end
  return s.rate * (given / max(given - s.gaps, given / skip))
end

local function serve(from, seconds)
  local rate, v = s.rate, speed()
  local waited = min(seconds, (s.tail - s.head) / v)
  if waited > 0 then
    s.busy = from + waited
    grow(waited)
  end
  local head = min(s.head + seconds * v, s.tail + 1)
  local passed = max(min(head, s.tail) - min(s.head, s.tail), 0)
  local n = passed * rate / v
  s.gaps = min(max(s.gaps - (passed - n), 0), max(s.tail - head, 0))
  s.head = head
  s.share = s.share * (1 - 1 / memory) ^ n
  s.got = s.got + n
  s.clean = s.clean + n
  s.span = s.span + n / rate
  if s.trial_round > 0 then
    s.trial_sent = s.trial_sent + n
    judge()
  end
end

local function move(from)
  if s.at > from then serve(from, s.at - from) end
  if s.tail <= s.head and s.hold <= s.at and s.at - s.busy > quiet + slow / s.rate then s.mode = open end
end

local function begin_paced(rate)
  s.share, s.calm, s.sure = some, 0, 0
  s.got, s.lost, s.span, s.passed, s.was = 0, 0, 0, 0, 0
  forget_trials()
  set_rate(rate)
end

local function release()
  s.mode = open
  if s.tail > s.head then begin_paced(2 * (s.tail - s.head) / max(s.hold - s.since, 1)) end
end

local function advance()
  local from = s.at
  if now <= from then
    if from - now > jumps then
      s.at, s.busy, s.since, s.cut = now, min(s.busy, now), min(s.since, now), min(s.cut, now)
      s.hold = min(s.hold, now + max_hold)
    end
    return
  end
  s.at = now
  local fade = exp(-(now - from) / max(recent, least / max(s.rate, lowest)))
  s.got, s.lost, s.span = s.got * fade, s.lost * fade, s.span * fade
  s.was = s.was * exp(-(now - from) / forget)
  s.spare_left = max(s.spare_left - (now - from), 0)
  if s.mode == held and s.hold <= now then
    release()
    from = s.hold
  end
  if s.mode == paced then move(max(from, s.hold)) end
  if s.mode == counting and now - s.busy > quiet then s.mode = open end
end

local function price()
  if not (r.priced > 0) or not (r.costs > 0) then return end
  if s.mean == 0 then s.mean = r.costs / r.priced end
  s.mean = s.mean + (r.costs / r.priced - s.mean) * (1 - exp(-r.priced / prices))
end

local function recent_share() return min(s.lost / max(s.got, 1), 1) end

local function lower_rate()
  local rate = max(s.rate * (1 - trial_loss(s.share)), min(fallen * s.was, s.rate))
  if s.span < shows then return set_rate(rate) end
  s.passed = min(max(s.got - s.lost, 0) / s.span, s.rate)
  s.was = max(s.was, s.passed)
  if s.share >= some then s.sure = 1 end
  rate = max(rate, s.passed)
  if trial_due(rate, recent_share()) then
    trial_begin(s.round + 1, s.rate, rate, recent_share())
    set_rate(min(lower * s.passed, s.rate))
  else
    set_rate(rate)
  end
end

local function refused(fresh)
  local cut = s.at - s.cut >= apart
  spare_doubt(s.clean)
  if s.spare_left > 0 then
    local x = spare_excess(recent_share(), least)
    if x > 0 and cut then set_rate(s.rate * (1 - trial_loss(x))) end
  elseif s.trial_round > 0 then
    trial_note(fresh)
  else
    trial_doubt(s.rate, s.clean, recent_share())
    if cut then lower_rate() end
  end
  s.clean = 0
end

local function throttled(same)
  local remembered = s.rate > 0 and s.at - s.busy < known
  s.busy = s.at
  if s.mode == open then
    s.round = s.round + 1
    s.since, s.sent, s.hits, s.head = s.at, 0, 0, s.tail
    s.mode = counting
    if remembered then
      forget_trials()
      s.mode, s.share, s.calm = paced, some, 0
    end
  elseif s.mode == paced then
    s.lost = min(s.lost + r.hits, s.got)
    if not same or r.round ~= s.round or r.fresh <= 0 then return end
    s.calm = 0
    s.share = min(s.share + r.fresh / memory, 1)
    refused(r.fresh)
    if s.share >= enough + spare_unrelated() then hold_for(r.hint) end
  end
end

local function decide()
  local took = s.at - s.since - grace
  if took < window then return end
  if s.hits >= trips and s.hits >= some * s.sent then
    local passed = max(s.sent - s.hits, 1) / took
    s.head, s.gaps = s.tail, 0
    begin_paced(passed)
    s.passed, s.was = passed, passed
    if s.hits >= enough * s.sent then hold_for(r.hint) end
  elseif s.sent > watched then
    s.mode = open
  end
end

local function begin_hold()
  if s.mode == open or s.mode == counting then
    s.mode, s.since, s.head = held, s.at, s.tail
    s.round = s.round + 1
  end
  s.busy = s.at
  hold_for(r.hold)
end

local function give(hold)
  if s.mode ~= paced and s.mode ~= held then return 0, 0 end
  local size = max(r.take, 0)
  if s.mode == paced then
    size = max(min(size, (r.patience - hold) * s.rate + s.head + s.gaps - s.tail), 0)
  elseif hold > r.patience then
    size = 0
  end
  local first = s.tail
  s.tail = s.tail + size
  if s.tail > s.head then s.busy = s.at end
  return first, size
end

local before = s.mode
if s.epoch == 0 then begin() end
advance()
price()
local same = r.epoch == s.epoch
if s.mode == counting and r.counted == 1 then
  s.sent = s.sent + r.started
  s.hits = s.hits + r.hits
end
if same and r.returned > 0 then s.gaps = min(s.gaps + r.returned, max(s.tail - s.head, 0)) end
if r.hits > 0 then throttled(same) end
if s.mode == counting then decide() end
if r.hold > 0 then begin_hold() end
local a = {hold = max(s.hold - s.at, 0), count = 0, rate = 0, speed = 0, news = 0}
a.first, a.size = give(a.hold)
if s.mode == counting then
  a.count = s.since + window - s.at
  if a.count <= 0 then a.count = window end
elseif s.mode == paced then
  a.rate, a.speed = s.rate, speed()
end
if s.mode ~= before and s.mode ~= open then a.news = 1 end

-- Nothing is written before all is known to be good, and nothing after the state.
local function join(numbers)
  local words = {}
  for i, x in ipairs(numbers) do
    if not finite(x) then return nil end
    words[i] = string.format('%.17g', x)
  end
  return table.concat(words, ' ')
end
local numbers = {}
for i, name in ipairs(names) do numbers[i] = s[name] end
local state = join(numbers)
local answer = join({s.epoch, s.round, s.mode, a.rate, a.speed, s.head, s.tail, a.hold, a.count, a.first, a.size, s.mean, a.news})
if not state or not answer or not possible() then return redis.error_reply('ERR retryredis: the report cannot be') end
if a.news == 1 then redis.call('PUBLISH', KEYS[1], '') end
redis.call('SET', KEYS[1], version .. ' ' .. state, 'EX', expires)
return answer
