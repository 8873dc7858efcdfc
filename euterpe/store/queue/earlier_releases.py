"""Count the earlier releases of jobs, which decide whether a further release is charged."""

from collections.abc import Collection, Mapping, Sequence

import sqlalchemy as sa

from euterpe.domain.release_limits import BOUNDED_CODES, LIMITED_CODES, EarlierReleases
from euterpe.store.engine.batch_rows import TEXT, AnyRow, AnySelect, Rows, as_parameter, fetch_all
from euterpe.store.engine.database import Database
from euterpe.store.queue.attempt_answers import AttemptEnd, ReleasedAttempt
from euterpe.store.tables import job_attempts

_attempt = job_attempts.c
_code = sa.type_coerce(_attempt.error.op("->>")(sa.literal_column("'code'")), sa.Text)


class ReleaseCounts:
    """Count releases as `ReleaseLimits` requires."""

    def __init__(self, database: Database) -> None:
        ids = sa.select(Rows({"id": TEXT})["id"])
        waited_ms = (database.now - sa.func.min(_attempt.ended_at)).label("waited_ms")
        counted = (
            sa.func.count().label("releases"),
            sa.func.count(_attempt.worker_id.distinct()).label("workers"),
            waited_ms,
        )
        released = sa.select(_attempt.job_id, *counted).where(
            _attempt.job_id.in_(ids), _attempt.outcome == "released"
        )
        # Only the releases after the last charged attempt count. So after a person has retried a job, the job
        # can be released without a charge again.
        charged = job_attempts.alias("charged")
        last_charged = sa.select(sa.func.max(charged.c.claim_version)).where(
            charged.c.job_id == _attempt.job_id, charged.c.outcome != "released"
        )
        recent = released.where(_attempt.claim_version > sa.func.coalesce(last_charged.scalar_subquery(), 0))
        self._limited = released.where(_code.in_(sorted(code.value for code in LIMITED_CODES))).group_by(
            _attempt.job_id
        )
        self._bounded = (
            recent.add_columns(_code.label("code"))
            .where(_code.in_(sorted(code.value for code in BOUNDED_CODES)))
            .group_by(_attempt.job_id, _code)
        )
        self._all = recent.group_by(_attempt.job_id)

    def before(self, connection: sa.Connection, ends: Sequence[AttemptEnd]) -> Mapping[str, EarlierReleases]:
        """Return, by job id, the earlier releases that decide whether the release in `ends` is charged."""
        codes = {
            end.key.job_id: None if end.reason is None else end.reason.code
            for end in ends
            if isinstance(end, ReleasedAttempt)
        }
        limited = {job_id for job_id, code in codes.items() if code in LIMITED_CODES}
        bounded = {job_id for job_id, code in codes.items() if code in BOUNDED_CODES}
        rows = [
            *self._counted(connection, self._limited, limited),
            *self._counted(connection, self._all, codes.keys() - limited - bounded),
            *(
                row
                for row in self._counted(connection, self._bounded, bounded)
                if row.code == codes[row.job_id]
            ),
        ]
        return {row.job_id: EarlierReleases(row.releases, row.workers, row.waited_ms) for row in rows}

    def _counted(
        self, connection: sa.Connection, statement: AnySelect, job_ids: Collection[str]
    ) -> Sequence[AnyRow]:
        if not job_ids:
            return ()
        return fetch_all(connection.execute(statement, as_parameter({"id": one} for one in sorted(job_ids))))
