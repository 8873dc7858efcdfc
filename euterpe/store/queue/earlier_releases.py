"""Count the earlier releases of jobs, which decide whether a further release is charged."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.release_limits import BOUNDED_CODES, LIMITED_CODES
from euterpe.store.engine.batch_rows import TEXT, AnySelect, Rows, as_parameter
from euterpe.store.engine.database import Database
from euterpe.store.queue.attempt_answers import AttemptEnd, ReleasedAttempt
from euterpe.store.tables import job_attempts

_attempt = job_attempts.c
_code = sa.type_coerce(_attempt.error.op("->>")(sa.literal_column("'code'")), sa.Text)


class EarlierReleases(NamedTuple):
    """The number of earlier releases that count, and the time since the first of these releases."""

    releases: int = 0
    waited_ms: int = 0


NONE_YET = EarlierReleases()


class ReleaseCounts:
    """Count releases as `ReleaseLimits` requires."""

    def __init__(self, database: Database) -> None:
        ids = sa.select(Rows({"id": TEXT})["id"])
        waited_ms = (database.now - sa.func.min(_attempt.ended_at)).label("waited_ms")
        released = sa.select(sa.func.count().label("releases"), waited_ms).where(
            _attempt.job_id.in_(ids), _attempt.outcome == "released"
        )
        self._limited = (
            released.add_columns(_attempt.job_id)
            .where(_code.in_(sorted(code.value for code in LIMITED_CODES)))
            .group_by(_attempt.job_id)
        )
        # Only the releases after the last charged attempt count. So a job that a person retries may be
        # released again.
        charged = job_attempts.alias("charged")
        last_charged = sa.select(sa.func.max(charged.c.claim_version)).where(
            charged.c.job_id == _attempt.job_id, charged.c.outcome != "released"
        )
        self._bounded = (
            released.add_columns(_attempt.job_id, _code.label("code"))
            .where(
                _code.in_(sorted(code.value for code in BOUNDED_CODES)),
                _attempt.claim_version > sa.func.coalesce(last_charged.scalar_subquery(), 0),
            )
            .group_by(_attempt.job_id, _code)
        )

    def before(self, connection: sa.Connection, ends: Sequence[AttemptEnd]) -> Mapping[str, EarlierReleases]:
        """Return the earlier releases of each job, by job id, for the codes of these reports."""
        codes = {
            end.key.job_id: end.reason.code
            for end in ends
            if isinstance(end, ReleasedAttempt) and end.reason is not None
        }
        limited = self._counted(connection, self._limited, _jobs_with(codes, LIMITED_CODES))
        bounded = self._counted(connection, self._bounded, _jobs_with(codes, BOUNDED_CODES))
        found = {row.job_id: EarlierReleases(row.releases, row.waited_ms) for row in limited}
        for row in bounded:
            if row.code == codes[row.job_id]:
                found[row.job_id] = EarlierReleases(row.releases, row.waited_ms)
        return found

    def _counted(
        self, connection: sa.Connection, statement: AnySelect, job_ids: Sequence[str]
    ) -> Sequence[sa.Row[*tuple[object, ...]]]:
        if not job_ids:
            return ()
        return connection.execute(statement, as_parameter({"id": job_id} for job_id in job_ids)).all()


def _jobs_with(codes: Mapping[str, ErrorCode], wanted: frozenset[ErrorCode]) -> list[str]:
    return [job_id for job_id, code in codes.items() if code in wanted]
