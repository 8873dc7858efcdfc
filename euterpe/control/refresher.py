"""Get newer credentials for a job from its requester, by a signed call to its `refresh_url` (contract §7).

The control plane makes the call, because the call is signed with the requester's webhook secret. No remote
worker has that secret.
"""

import json
import time

import structlog

from euterpe.crypto.signing import webhook_headers
from euterpe.domain.canonical import join_secrets
from euterpe.domain.documents import RefreshDocument, members
from euterpe.domain.errors import InvalidSpec
from euterpe.domain.leased_job import RefreshReason, RefreshResult
from euterpe.domain.replacement import new_secret
from euterpe.domain.spec import JobSpec
from euterpe.domain.strict_json import parse_json
from euterpe.domain.units import iso
from euterpe.net.egress import Egress, EgressResponse
from euterpe.net.errors import EgressError
from euterpe.store.engine.ids import new_id
from euterpe.store.queue.inbox import ClaimedJob
from euterpe.store.store import Store

_log = structlog.get_logger(__name__)
_ANSWER_BYTES = 262_144


class Refresher:
    """Call the `refresh_url` of jobs, within the refresh budget of each job. Thread-safe.

    `call_deadline_s` is the time limit for the requester's response.
    """

    def __init__(
        self, store: Store, egress: Egress, *, max_refreshes: int, call_deadline_s: float = 10.0
    ) -> None:
        self._store, self._egress = store, egress
        self._max_refreshes, self._call_deadline_s = max_refreshes, call_deadline_s

    def refresh(self, job: ClaimedJob, credential_version: int, reason: RefreshReason) -> RefreshResult:
        """Call the requester once, unless newer credentials than `credential_version` are stored already.

        Raise `Conflict` for a stale claim, and `KeyProviderUnavailable` during an outage of the key provider.
        """
        callbacks = self._store.callbacks.for_job(job)
        secret, version = self._store.credentials.open(job)
        if version > credential_version:
            return RefreshResult.ADVANCED
        spec = join_secrets(dict(job.spec), secret, callbacks)
        if spec.refresh_url is None:
            return RefreshResult.REFUSED
        # Read the webhook secrets before the call is counted: an outage of the key provider must not use up
        # the refresh budget.
        signing_secrets = self._store.requesters.webhook_secrets(job.requester_id)
        if not self._store.credentials.begin_refresh(job, self._max_refreshes):
            return RefreshResult.REFUSED
        _log.info("refresh_called", reason=reason, credential_version=version)
        answer = self._call(spec, spec.refresh_url, signing_secrets, _document(job, version, reason))
        return RefreshResult.FAILED if answer is None else self._accept(job, spec, answer)

    def _call(
        self, spec: JobSpec, url: str, signing_secrets: list[str], call: RefreshDocument
    ) -> EgressResponse | None:
        body = json.dumps(members(call)).encode()
        headers = webhook_headers(spec.webhook_format, signing_secrets, call.event_id, body, int(time.time()))
        try:
            return self._egress.request(
                "POST",
                url,
                headers={**headers, "content-type": "application/json"},
                body=body,
                deadline_s=self._call_deadline_s,
                max_bytes=_ANSWER_BYTES,
            )
        except EgressError as error:
            _log.warning("refresh_failed", code=error.code, error=str(error))
            return None

    def _accept(self, job: ClaimedJob, spec: JobSpec, answer: EgressResponse) -> RefreshResult:
        """Return the result of the refresh. If the answer contains credentials, store them."""
        if answer.status in (202, 204):
            return RefreshResult.PROMISED
        if answer.status != 200 or answer.truncated:
            _log.warning("refresh_failed", status=answer.status, truncated=answer.truncated)
            return RefreshResult.FAILED
        try:
            secret = new_secret(dict(job.spec), parse_json(answer.body, _ANSWER_BYTES), known=spec)
        except InvalidSpec as invalid:
            _log.warning("refresh_failed", error=str(invalid))
            return RefreshResult.FAILED
        self._store.credentials.replace(job.job_id, job.requester_id, secret, claim=job)
        return RefreshResult.ADVANCED


def _document(job: ClaimedJob, version: int, reason: RefreshReason) -> RefreshDocument:
    return RefreshDocument(
        job_id=job.job_id,
        credential_version=version,
        reason=reason,
        event_id=new_id(),
        occurred_at=iso(int(time.time() * 1000)),
    )
