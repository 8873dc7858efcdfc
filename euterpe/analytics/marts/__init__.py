"""The marts, each in a module of its own: its table, how Spark makes it, and its section of the report.

A new mart is a new module and an entry in `MARTS`; the marts, the page, report.json, the Parquet files and
docs/analytics.md follow from it.
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

# In the order of the page.
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
