"""A made history straight into the configured store."""

from euterpe.analytics.errors import AnalyticsError
from euterpe.analytics.synthesize.block import block
from euterpe.analytics.synthesize.customers import named
from euterpe.analytics.synthesize.plan import OnProgress, Plan
from euterpe.analytics.synthesize.stored import lives
from euterpe.store.database import Database
from euterpe.store.history_load import HistoryLoad


def synthesize_store(database: Database, plan: Plan, on_progress: OnProgress) -> int:
    """Returns how many jobs were added; those that an earlier run of the same plan has left are not."""
    load = HistoryLoad(database)
    if stranger := load.stranger(key for key, _ in named(plan.requesters)):
        raise AnalyticsError(
            f"the database has jobs of {stranger}, who is not made up: what is made up stays apart from it; "
            "make a database of its own, or use --lake"
        )
    load.name(named(plan.requesters), plan.since_ms)
    seen = added = 0
    for index in range(plan.blocks):
        for size, new in load.write(lives(block(plan, index), plan.until_ms)):
            seen, added = seen + size, added + new
            on_progress(seen)
    database.settle_statistics()
    return added
