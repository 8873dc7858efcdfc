"""The marts. Each module has the table of a mart, its computation and its section of the report.

To add a mart, add a module and an entry in `MARTS`. The page, report.json, the Parquet files and
docs/analytics.md then include the new mart.
"""

from euterpe.analytics.marts import (
    capacity,
    costs,
    failures,
    fairness,
    latency,
    refreshes,
    regressions,
    sizes,
    speed,
    throughput,
    utilisation,
    webhooks,
)

# The page shows the marts in this order.
MARTS = (
    costs.MART,
    throughput.MART,
    latency.MART,
    speed.MART,
    regressions.MART,
    failures.MART,
    refreshes.MART,
    webhooks.MART,
    sizes.MART,
    utilisation.MART,
    capacity.MART,
    fairness.MART,
)

TABLES = {mart.table.name: mart.table for mart in MARTS}
