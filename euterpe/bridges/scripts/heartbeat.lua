-- Extend the hold on messages and the TTLs of their jobs. KEYS and ARGV: as in running.lua.
local stream, group, consumer, least_s = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])

local function heartbeat(id, job, events)
  local holder = owner(stream, group, id)
  if holder and holder ~= consumer then return 'lost' end
  if exists(job, events) then
    if redis.call('HGET', job, 'status') == 'canceled' then return 'canceled' end
    keep(job, events, least_s)
  end
  -- XCLAIM would drop a message that was trimmed from the stream, and with it our hold.
  if holder and redis.call('XRANGE', stream, id, id)[1] then
    redis.call('XCLAIM', stream, group, consumer, 0, id, 'JUSTID')
  end
  return 'held'
end

local answers = {}
for i = 4, #ARGV do answers[i - 3] = heartbeat(ARGV[i], KEYS[2 * i - 6], KEYS[2 * i - 5]) end
return answers
