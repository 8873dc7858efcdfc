-- Remove consumers without messages: `leaving`, and those that were idle for `idle_ms`.
-- KEYS: stream. ARGV: group, leaving, idle_ms. A consumer with messages is reclaimed from first.
local found = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])
if found.err then return 0 end
local removed = 0
for _, row in ipairs(found) do
  local info = {}
  for i = 1, #row, 2 do info[row[i]] = row[i + 1] end
  if info.pending == 0 and (info.name == ARGV[2] or info.idle > tonumber(ARGV[3])) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], info.name)
    removed = removed + 1
  end
end
return removed
