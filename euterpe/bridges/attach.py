"""Attach a foreign job to its row in the store: find the row by its `source_ref`, or make it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import structlog

from euterpe.bridges.adapter import ForeignFailure, ForeignJob
from euterpe.bridges.mapping import JobMapping, spec_of
from euterpe.bridges.requester_account import RequesterAccount, StoreCalls
from euterpe.domain.canonical import may_have_secrets
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.errors import FieldError, InvalidSpec, InvalidTransition
from euterpe.domain.job_limits import JobLimits
from euterpe.domain.profiles import Profiles
from euterpe.domain.rows import JobRow
from euterpe.domain.spec import JobSpec
from euterpe.domain.states import JobStatus
from euterpe.domain.storage_profiles import StorageProfiles, with_stored_credentials
from euterpe.store.errors import Conflict, DuplicateSource, NotFound, Pruned
from euterpe.store.queue.enqueue import NewJob
from euterpe.store.store import Store

_log = structlog.get_logger(__name__)


class SpecRules(Protocol):
    """The operator's restrictions on specs."""

    def problems(self, spec: JobSpec) -> tuple[FieldError, ...]: ...


@dataclass(frozen=True)
class JobRules:
    """The rules by which a foreign job becomes a spec."""

    mappings: Mapping[str, JobMapping]
    profiles: Profiles
    storage_profiles: StorageProfiles
    policy: SpecRules


@dataclass(frozen=True)
class Attached:
    """The row of a foreign job. `is_retried` is true if this delivery queued a failed job again."""

    job_id: str
    requester_id: str
    is_retried: bool = False


@dataclass(frozen=True)
class Rejected:
    """A foreign job for which no row can be made, or whose failed row cannot be retried."""

    failure: ForeignFailure


class _OtherRequester(Exception):  # never leaves this module
    """The job belongs to another requester than the requester of the bridge."""


class NoRoom(Exception):  # the caller waits, and repeats the call
    """The requester of the bridge is not allowed to add jobs now."""


def mark_of(job_id: str, claim_version: int) -> str:
    """Return the name of an attempt in the records of a foreign queue."""
    return f"Euterpe job {job_id}, attempt {claim_version}"


def failure_of(row: JobRow) -> ForeignFailure:
    """Return the failure of a row that rests in `failed` or `dead_letter`."""
    error = row.last_error or {"code": ErrorCode.INTERNAL_ERROR.value, "message": "", "retryable": False}
    retry = row.status == JobStatus.FAILED and bool(error["retryable"])
    return ForeignFailure(error["code"], error["message"], retry, mark_of(row.job_id, row.claim_version))


class Attacher:
    def __init__(self, store: Store, calls: StoreCalls, rules: JobRules, account: RequesterAccount) -> None:
        self._store, self._calls, self._rules, self._account = store, calls, rules, account

    async def attach(self, job: ForeignJob) -> Attached | Rejected:
        """Return the row of this job. Make the row if there is none.

        Raise `NoRoom` if the requester is not allowed to add jobs now. Raise `Unavailable` in an outage of
        the database or of the key provider.
        """
        # Without this check, each requester of a gateway could use the quota and the storage of the bridge's
        # requester.
        if job.requester_id not in ("", self._account.requester_id):
            return _WRONG_REQUESTER
        try:
            return await self._found_or_made(job)
        except _OtherRequester:
            return _WRONG_REQUESTER
        except Pruned:
            text = "the job has run before, and its history has been removed: add it again under a new id"
            return _rejected("pruned", text)
        except InvalidSpec as invalid:
            return _rejected(invalid.code, str(invalid))

    async def _found_or_made(self, job: ForeignJob) -> Attached | Rejected:
        row = await self._row_of(job)
        if job.is_canceled:
            return _rejected("canceled", "the producer has canceled the job") if row is None else _of(row)
        return await self._submitted(job) if row is None else await self._resumed(job, row)

    async def _row_of(self, job: ForeignJob) -> JobRow | None:
        row = await self._calls.run(partial(self._store.jobs.of_source, job.source_ref))
        # Producers choose the ids in a `source_ref`, so a producer could name the job of another requester.
        if row is not None and row.requester_id != self._account.requester_id:
            raise _OtherRequester
        return row

    async def _submitted(self, job: ForeignJob) -> Attached | Rejected:
        account, rules = self._account, self._rules
        limits = await account.limits()
        spec = spec_of(job, rules.mappings, rules.profiles)
        spec = with_stored_credentials(spec, account.name, rules.storage_profiles)
        spec = _within(limits, spec, is_declared=self._declares_attempts(job))
        limits.check(spec)
        if problems := rules.policy.problems(spec):
            raise InvalidSpec(problems)
        if not await account.is_open():
            raise NoRoom
        account.use_place()
        new = await self._new_job(spec, job.source_ref, limits)
        try:
            accepted = await asyncio.wrap_future(self._store.commits.submit(new))
        except DuplicateSource:
            # Another bridge has made the row since the first query, or the answer to our own commit was lost.
            row = await self._row_of(job)
            if row is None:
                raise
            return await self._resumed(job, row)
        return Attached(accepted.job_id, account.requester_id)

    def _declares_attempts(self, job: ForeignJob) -> bool:
        mappings = self._rules.mappings
        mapping = mappings.get(job.name, mappings.get("*"))
        return mapping is not None and mapping.max_attempts is not None

    async def _new_job(self, spec: JobSpec, source_ref: str, limits: JobLimits) -> NewJob:
        make = partial(
            self._store.new_job, spec, self._account.requester_id, source_ref=source_ref, limits=limits
        )
        return await self._calls.run(make) if may_have_secrets(spec) else make()

    async def _resumed(self, job: ForeignJob, row: JobRow) -> Attached | Rejected:
        """Return the row. Queue a failed job again if the foreign queue knows of the failure."""
        attached = _of(row)
        if row.status != JobStatus.FAILED or not _is_reported(job, row):
            return attached
        if job.ignores_final_failures and not failure_of(row).retry:
            return attached  # the failure is reported again: a canceled job must not run again
        try:
            retry = partial(self._store.control.retry, row.job_id, requester_id=row.requester_id)
            await self._calls.run(retry)
        except (Conflict, NotFound) as error:
            now = await self._row_of(job)
            if now is not None and now.status != JobStatus.FAILED:
                return attached  # another bridge has queued it again
            return _rejected("attempts_used_up", str(error))
        except InvalidTransition as spent:
            return _rejected("attempts_used_up", str(spent))
        _log.info("bridged_job_retried", job_id=row.job_id)
        return replace(attached, is_retried=True)


def _of(row: JobRow) -> Attached:
    return Attached(row.job_id, row.requester_id)


def _is_reported(job: ForeignJob, row: JobRow) -> bool:
    """Return whether the foreign queue knows of the failure in this row.

    If a bridge was killed before it reported the failure, the foreign queue delivers the job again. A retry
    now would run an attempt that the foreign queue has not granted.
    """
    if job.past_failures is None:
        return True
    mark = mark_of(row.job_id, row.claim_version)
    return any(mark in text for text in job.past_failures)


def _within(limits: JobLimits, spec: JobSpec, *, is_declared: bool) -> JobSpec:
    """Lower `max_attempts` to the requester's limit, unless the mapping declares `max_attempts` itself."""
    if is_declared or spec.max_attempts is None:
        return spec
    return spec.model_copy(update={"max_attempts": limits.attempts(spec.max_attempts)})


def _rejected(code: str, message: str) -> Rejected:
    return Rejected(ForeignFailure(code, message, retry=False))


_WRONG_REQUESTER = _rejected("wrong_requester", "the job belongs to another requester than the bridge")
