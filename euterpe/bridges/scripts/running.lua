-- Begin jobs that this consumer has taken; it may be repeated. KEYS: stream, and job and events of each.
-- ARGV: group, consumer, least_s, and the message of each. Return a word and the requester for each.
local stream, group, consumer, least_s = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])

local function begin(id, job, events)
  if owner(stream, group, id) ~= consumer then return {'lost', ''} end
  if not exists(job, events) then
    acknowledge(stream, group, id)
    return {'missing', ''}
  end
  local status, requester = redis.call('HGET', job, 'status'), redis.call('HGET', job, 'requester_id') or ''
  -- An earlier holder may have begun the job, so its row must be canceled before the message is acknowledged.
  if status == 'canceled' then return {'canceled', requester} end
  if TERMINAL[status] then
    acknowledge(stream, group, id)
    return {'ended', requester}
  end
  if status ~= 'running' then
    redis.call('HSET', job, 'status', 'running', 'updated_ts', now_ms())
    emit(events, 'running', 'euterpe.take', '{}')
  end
  keep(job, events, least_s)
  return {'running', requester}
end

local answers = {}
for i = 4, #ARGV do answers[i - 3] = begin(ARGV[i], KEYS[2 * i - 6], KEYS[2 * i - 5]) end
return answers
