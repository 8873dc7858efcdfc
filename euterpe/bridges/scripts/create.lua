-- Create a job once. KEYS: stream, job, events, the requester's messages, and the idempotency key if the
-- client sent one. ARGV: group, max_backlog, job_id, task, payload, ttl_s, requester_id, max_of_requester.
local stream, job, events, own, known = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local group, most, job_id = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local requester, most_own = ARGV[7], tonumber(ARGV[8])
local OWN_TTL_S = 2592000  -- 30 days after the last job of the requester

local function group_info()
  if redis.call('EXISTS', stream) == 0 then return nil end
  for _, row in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
    local info = {}
    for i = 1, #row, 2 do info[row[i]] = row[i + 1] end
    if info.name == group then return info end
  end
end

local function backlog(info)
  if not info then return 0, redis.call('XLEN', stream) end
  -- Redis 6 has no lag, and Redis 7 none after an XDEL: count the messages that wait.
  return info.pending, info.lag
    or #redis.call('XRANGE', stream, '(' .. info['last-delivered-id'], '+', 'COUNT', most)
end

local function is_after(id, other)
  local ms, sequence = id:match('(%d+)-(%d+)')
  local other_ms, other_sequence = other:match('(%d+)-(%d+)')
  if ms ~= other_ms then return tonumber(ms) > tonumber(other_ms) end
  return tonumber(sequence) > tonumber(other_sequence)
end

-- Return the number of the requester's messages that wait or are pending. Messages that left the backlog are
-- forgotten only at the limit, because the check of a message is a call.
local function own_backlog(info)
  if redis.call('SCARD', own) < most_own then return 0 end
  local last, is_empty = info and info['last-delivered-id'] or '0-0', redis.call('XLEN', stream) == 0
  for _, id in ipairs(redis.call('SMEMBERS', own)) do
    local waits = not is_empty and is_after(id, last)
    if not waits and not owner(stream, group, id) then redis.call('SREM', own, id) end
  end
  return redis.call('SCARD', own)
end

if known then
  local earlier = redis.call('GET', known)
  if earlier and earlier ~= job_id then return {'known', earlier} end
end
-- The gateway repeats a call whose answer was lost.
if redis.call('EXISTS', job) == 1 then return {'created', job_id} end
local info = group_info()
local pending, lag = backlog(info)
if pending + lag >= most then return {'full', pending, lag} end
local is_limited = requester ~= '' and most_own > 0
if is_limited then
  local found = own_backlog(info)
  if found >= most_own then return {'greedy', found} end
end
local now = now_ms()
redis.call('HSET', job, 'job_id', job_id, 'task', ARGV[4], 'payload', ARGV[5], 'status', 'queued',
  'created_ts', now, 'updated_ts', now, 'ttl_s', ARGV[6], 'result', '', 'error', '')
if requester ~= '' then redis.call('HSET', job, 'requester_id', requester) end
emit(events, 'queued', 'gateway.enqueue', '{}')
keep(job, events, 1)
local message = redis.call('XADD', stream, '*', 'job_id', job_id, 'task', ARGV[4], 'payload', ARGV[5])
if is_limited then
  redis.call('SADD', own, message)
  redis.call('EXPIRE', own, OWN_TTL_S)
end
if known then redis.call('SET', known, job_id, 'EX', ARGV[6]) end
return {'created', job_id}
