#!/usr/bin/env bash
# A client of the Redis job gateway, with curl: create a job, follow its events until they end, and read it.
# usage: gateway_client.sh GATEWAY_URL SOURCE_URL
set -euo pipefail
job=$(curl -sf "$1/v1/jobs" -H 'content-type: application/json' -H 'Idempotency-Key: demo-1' \
    -d "{\"task\": \"tool\", \"payload\": {\"tool\": \"transcode\", \"source\": \"$2\"}}" | sed 's/.*"job_id": *"\([^"]*\)".*/\1/')
curl -sfN "$1/v1/jobs/$job/events" | sed -n 's/^event: /event /p'
curl -sf "$1/v1/jobs/$job"
echo
