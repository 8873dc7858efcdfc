-- Let the next consumer reclaim a message at once. KEYS: stream. ARGV: group, consumer, message, idle_ms.
if owner(KEYS[1], ARGV[1], ARGV[3]) ~= ARGV[2] or not redis.call('XRANGE', KEYS[1], ARGV[3], ARGV[3])[1] then
  return 'lost'
end
redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[3], 'IDLE', ARGV[4], 'JUSTID')
return 'held'
