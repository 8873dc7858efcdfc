-- Begin jobs that this consumer has taken; it may be repeated. KEYS: stream, and job and events of each.
-- ARGV: group, consumer, least_s, and the message of each. Return a word for each.
local stream, group, consumer, least_s = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])

local function begin(id, job, events)
  if owner(stream, group, id) ~= consumer then return 'lost' end
  if not exists(job, events) then
    acknowledge(stream, group, id)
    return 'missing'
  end
  local status = redis.call('HGET', job, 'status')
  if TERMINAL[status] then
    acknowledge(stream, group, id)
    return 'ended'
  end
  if status ~= 'running' then
    redis.call('HSET', job, 'status', 'running', 'updated_ts', now_ms())
    emit(events, 'running', 'euterpe.take', '{}')
  end
  keep(job, events, least_s)
  return 'running'
end

local answers = {}
for i = 4, #ARGV do answers[i - 3] = begin(ARGV[i], KEYS[2 * i - 6], KEYS[2 * i - 5]) end
return answers
