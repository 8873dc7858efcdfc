-- End a job: hash, then terminal event, then XACK. KEYS: stream, job, events.
-- ARGV: group, consumer, message, status, result, error, data of the event.
local stream, job, events = KEYS[1], KEYS[2], KEYS[3]
local group, id = ARGV[1], ARGV[3]
-- A message that nobody holds was trimmed, or was acknowledged without an end: nobody else would report.
local holder = owner(stream, group, id)
if holder and holder ~= ARGV[2] then return 'lost' end
if not exists(job, events) then
  acknowledge(stream, group, id)
  return 'missing'
end
if TERMINAL[redis.call('HGET', job, 'status')] then
  acknowledge(stream, group, id)
  return 'ended'
end
redis.call('HSET', job, 'status', ARGV[4], 'result', ARGV[5], 'error', ARGV[6], 'updated_ts', now_ms())
emit(events, ARGV[4], 'euterpe.finish', ARGV[7])
if ARGV[4] ~= 'done' then shorten(job) end
keep(job, events, 1)
acknowledge(stream, group, id)
return 'finished'
