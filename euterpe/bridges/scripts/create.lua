-- Create a job once. KEYS: stream, job, events, and the idempotency key if the client sent one.
-- ARGV: group, max_backlog, job_id, task, payload, ttl_s, requester_id.
local stream, job, events, known = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local group, most, job_id = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local function backlog()
  if redis.call('EXISTS', stream) == 0 then return 0, 0 end
  for _, row in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
    local info = {}
    for i = 1, #row, 2 do info[row[i]] = row[i + 1] end
    if info.name == group then
      -- Redis 6 has no lag, and Redis 7 none after an XDEL: count the messages that wait.
      return info.pending, info.lag
        or #redis.call('XRANGE', stream, '(' .. info['last-delivered-id'], '+', 'COUNT', most)
    end
  end
  return 0, redis.call('XLEN', stream)
end

if known then
  local earlier = redis.call('GET', known)
  if earlier and earlier ~= job_id then return {'known', earlier} end
end
-- The gateway repeats a call whose answer was lost.
if redis.call('EXISTS', job) == 1 then return {'created', job_id} end
local pending, lag = backlog()
if pending + lag >= most then return {'full', pending, lag} end
local now = now_ms()
redis.call('HSET', job, 'job_id', job_id, 'task', ARGV[4], 'payload', ARGV[5], 'status', 'queued',
  'created_ts', now, 'updated_ts', now, 'ttl_s', ARGV[6], 'result', '', 'error', '')
if ARGV[7] ~= '' then redis.call('HSET', job, 'requester_id', ARGV[7]) end
emit(events, 'queued', 'gateway.enqueue', '{}')
keep(job, events, 1)
redis.call('XADD', stream, '*', 'job_id', job_id, 'task', ARGV[4], 'payload', ARGV[5])
if known then redis.call('SET', known, job_id, 'EX', ARGV[6]) end
return {'created', job_id}
