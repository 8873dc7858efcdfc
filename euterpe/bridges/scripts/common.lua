-- Shared by all scripts, each of which follows this text. A job is a hash and a stream of events.
local TERMINAL = {done = true, error = true, canceled = true}
local DEFAULT_TTL_S, MOST_TTL_S, TTL_WITHOUT_RESULT_S, MOST_EVENTS = 3600, 31536000, 3600, 1000

local function now_ms()
  local time = redis.call('TIME')
  return string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
end

-- A key of another type counts as missing: its error would end a script after half of its writes.
local function exists(job, events)
  local kind = redis.call('TYPE', events).ok
  return redis.call('TYPE', job).ok == 'hash' and (kind == 'stream' or kind == 'none')
end

local function ttl_of(job)
  local ttl = tonumber(redis.call('HGET', job, 'ttl_s'))
  if not (ttl and ttl >= 1 and ttl <= MOST_TTL_S) then return DEFAULT_TTL_S end
  return ttl
end

local function keep(job, events, least_s)
  local ttl = math.floor(math.max(ttl_of(job), least_s))
  redis.call('EXPIRE', job, ttl)
  redis.call('EXPIRE', events, ttl)
end

-- Keep a job that ended without a result for an hour at most. No backlog limits the number of such jobs, and
-- each may have 200 KB: with a TTL of 30 days, they would fill Redis. As the contract demands, all TTLs still
-- come from the field `ttl_s`.
local function shorten(job)
  if ttl_of(job) > TTL_WITHOUT_RESULT_S then redis.call('HSET', job, 'ttl_s', TTL_WITHOUT_RESULT_S) end
end

local function emit(events, kind, step, data)
  redis.call('XADD', events, 'MAXLEN', '~', MOST_EVENTS, '*',
    'type', kind, 'ts', now_ms(), 'step', step, 'data', data)
end

-- Return the consumer that holds a message, or nil if nobody does.
local function owner(stream, group, id)
  local found = redis.pcall('XPENDING', stream, group, id, id, 1)
  return not found.err and found[1] and found[1][2] or nil
end

local function acknowledge(stream, group, id)
  redis.pcall('XACK', stream, group, id)
end
