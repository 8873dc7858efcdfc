-- Report progress. KEYS: stream, job, events. ARGV: group, consumer, least_s, message, data.
local stream, job, events = KEYS[1], KEYS[2], KEYS[3]
local holder = owner(stream, ARGV[1], ARGV[4])
if holder and holder ~= ARGV[2] then return 'lost' end
if not exists(job, events) or redis.call('HGET', job, 'status') ~= 'running' then return 'ended' end
redis.call('HSET', job, 'updated_ts', now_ms())
emit(events, 'progress', 'euterpe.run', ARGV[5])
keep(job, events, tonumber(ARGV[3]))
return 'held'
