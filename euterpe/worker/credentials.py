"""A job's credentials: decrypt them in memory, and refresh them when storage refuses them (contract §7)."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import structlog

from euterpe.crypto.errors import KeyProviderUnavailable
from euterpe.crypto.signing import webhook_headers
from euterpe.domain.canonical import join_secrets
from euterpe.domain.credentials import Side, StorageCredentials, credentials_for
from euterpe.domain.documents import RefreshDocument, members
from euterpe.domain.error_codes import RetryClass
from euterpe.domain.errors import InvalidSpec
from euterpe.domain.replacement import new_secret
from euterpe.domain.spec import JobSpec
from euterpe.domain.strict_json import parse_json
from euterpe.domain.units import iso
from euterpe.net.egress import Egress, EgressResponse
from euterpe.net.errors import EgressError
from euterpe.runtime.retry import jittered
from euterpe.storage.errors import StorageError
from euterpe.store.engine.ids import new_id
from euterpe.store.store import Store
from euterpe.worker.attempt_control import AttemptControl

_log = structlog.get_logger(__name__)
_ANSWER_BYTES = 262_144

Reason = Literal["forbidden", "expiring"]
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class RefreshTimings:
    """Durations of the refresh of credentials, in seconds."""

    call_deadline_s: float = 10.0  # the time limit for the requester's response
    promise_s: float = 60.0  # the longest wait for credentials after a response that promised them
    look_every_s: float = 0.5  # the pause between two reads for promised credentials
    # The pause after a call that brought no new credentials. It doubles each time, which gives the
    # requester's service time to restart.
    first_pause_s: float = 1.0
    expires_soon_s: float = 60.0  # credentials that expire within this time are refreshed before their use


DEFAULT_TIMINGS = RefreshTimings()


class CredentialAccess:
    """A job's spec with its secrets, in the newest version read from the store."""

    def __init__(
        self,
        store: Store,
        egress: Egress,
        control: AttemptControl,
        *,
        max_refreshes: int,
        timings: RefreshTimings = DEFAULT_TIMINGS,
    ) -> None:
        self._store, self._egress, self._control, self._job = store, egress, control, control.job
        self._max_refreshes, self._timings = max_refreshes, timings
        self._callbacks = control.retry_while_unavailable(lambda: store.callbacks.for_job(self._job))
        self.spec, self._version = self._read()
        self._refreshed_early = 0  # the version that was about to expire at the last early refresh

    def on(self, side: Side, work: Callable[[JobSpec, StorageCredentials | None], R]) -> R:
        """Run `work` with the credentials of `side`.

        If storage refuses the credentials, repeat `work` with newer credentials.
        """
        if self._expires_soon(side) and self._refreshed_early != self._version:
            self._refreshed_early = self._version
            self._refresh_early()
        while True:
            try:
                return work(self.spec, credentials_for(self.spec.credentials, side))
            except StorageError as refused:
                self._control.check()  # the request may have been cut off by the attempt's timeout
                if refused.retry_class is not RetryClass.CREDENTIALS:
                    raise
                if not self._refresh("forbidden"):
                    # A retry would fail again. A person must first supply new credentials, and then retry.
                    raise refused.with_class(RetryClass.PERMANENT) from None

    def _read(self, keys_wait_s: float | None = None) -> tuple[JobSpec, int]:
        secret, version = self._control.retry_while_unavailable(
            lambda: self._store.credentials.open(self._job), keys_wait_s=keys_wait_s
        )
        return join_secrets(dict(self._job.spec), secret, self._callbacks), version

    def _expires_soon(self, side: Side) -> bool:
        credentials = credentials_for(self.spec.credentials, side)
        if credentials is None or credentials.expires_at is None:
            return False
        return credentials.expires_at / 1000 - time.time() < self._timings.expires_soon_s

    def _refresh_early(self) -> None:
        """Refresh credentials that expire soon. Skip this while the key provider is unavailable.

        The old credentials are still valid. If they expire during the work, storage refuses them, and the
        refresh that follows waits for the keys.
        """
        try:
            self._refresh("expiring")
        except KeyProviderUnavailable as error:
            _log.warning("early_refresh_skipped", job_id=self._job.job_id, error=str(error))

    def _refresh(self, reason: Reason) -> bool:
        """Load newer credentials from the store. If it has none, request them from the requester.

        Return whether newer credentials were loaded. After a refusal by storage, call the requester until the
        refresh budget is spent. For credentials that expire soon, call the requester once: the credentials
        are still valid, and later refusals need the rest of the budget.
        """
        pause = self._timings.first_pause_s
        # A wait for the keys would use up the time that expiring credentials have left.
        keys_wait_s = 0.0 if reason == "expiring" else None
        while not self._load_newer(keys_wait_s):
            url = self.spec.refresh_url
            if url is None:
                return False
            # Read the secrets before the call is counted: an outage of the keys must not use up the budget.
            secrets = self._signing_secrets(keys_wait_s)
            if not self._spend_refresh():
                return False
            _log.info("refresh_called", reason=reason, credential_version=self._version)
            if self._call_requester(url, reason, secrets) and self._await_newer():
                return True
            if reason == "expiring":
                return False
            self._control.wait(jittered(pause))
            pause *= 2
        return True

    def _spend_refresh(self) -> bool:
        """Count one call against the job's refresh budget. Return False if the budget is spent."""
        self._control.check()
        begin = self._store.credentials.begin_refresh
        return self._control.retry_while_unavailable(lambda: begin(self._job, self._max_refreshes))

    def _signing_secrets(self, keys_wait_s: float | None) -> Sequence[str]:
        requesters, requester_id = self._store.requesters, self._job.requester_id
        return self._control.retry_while_unavailable(
            lambda: requesters.webhook_secrets(requester_id), keys_wait_s=keys_wait_s
        )

    def _call_requester(self, url: str, reason: Reason, secrets: Sequence[str]) -> bool:
        """Call the requester. Return whether its response contained or promised new credentials."""
        call = RefreshDocument(
            job_id=self._job.job_id,
            credential_version=self._version,
            reason=reason,
            event_id=new_id(),
            occurred_at=iso(int(time.time() * 1000)),
        )
        body = json.dumps(members(call)).encode()
        webhook_format, sent_at = self.spec.webhook_format, int(time.time())
        headers = webhook_headers(webhook_format, secrets, call.event_id, body, sent_at)
        try:
            answer = self._egress.request(
                "POST",
                url,
                headers={**headers, "content-type": "application/json"},
                body=body,
                deadline_s=self._timings.call_deadline_s,
                max_bytes=_ANSWER_BYTES,
            )
        except EgressError as error:
            _log.warning("refresh_failed", code=error.code, error=str(error))
            return False
        return self._accept(answer)

    def _accept(self, answer: EgressResponse) -> bool:
        if answer.status in (202, 204):
            return True
        if answer.status != 200 or answer.truncated:
            _log.warning("refresh_failed", status=answer.status, truncated=answer.truncated)
            return False
        try:
            given = parse_json(answer.body, _ANSWER_BYTES)
            secret = new_secret(dict(self._job.spec), given, known=self.spec)
        except InvalidSpec as invalid:
            _log.warning("refresh_failed", error=str(invalid))
            return False
        job, replace = self._job, self._store.credentials.replace
        self._control.retry_while_unavailable(
            lambda: replace(job.job_id, job.requester_id, secret, claim=job)
        )
        return True

    def _await_newer(self) -> bool:
        """Wait for newer credentials, which the response contained or promised. Return whether they came."""
        until = time.monotonic() + self._timings.promise_s
        while not self._load_newer():
            if time.monotonic() > until:
                _log.warning("refresh_failed", error="no new credentials came in time")
                return False
            self._control.wait(self._timings.look_every_s)
        return True

    def _load_newer(self, keys_wait_s: float | None = None) -> bool:
        spec, version = self._read(keys_wait_s)
        if version <= self._version:
            return False
        self.spec, self._version = spec, version
        return True
