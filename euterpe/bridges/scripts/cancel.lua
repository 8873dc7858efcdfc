-- Cancel a job that has not ended. KEYS: job, events. ARGV: error, data of the event, requester_id.
-- Return its status, and whether this call has changed it.
local job, events = KEYS[1], KEYS[2]
if not exists(job, events) then return {'missing', 0} end
if ARGV[3] ~= '' and redis.call('HGET', job, 'requester_id') ~= ARGV[3] then return {'missing', 0} end
local status = redis.call('HGET', job, 'status')
if TERMINAL[status] then return {status, 0} end
redis.call('HSET', job, 'status', 'canceled', 'error', ARGV[1], 'updated_ts', now_ms())
emit(events, 'canceled', 'gateway.cancel', ARGV[2])
shorten(job)
keep(job, events, 1)
return {'canceled', 1}
