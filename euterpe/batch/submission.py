"""Submit rows to the API with a thread pool. Retry each row until the API accepts or finally rejects it."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from euterpe.batch.row_problems import ProblemTotals
from euterpe.batch.rows import Request
from euterpe.client import Busy, Client, ClientError, Conflict, Invalid, Job, TooLarge, requests
from euterpe.client.documents import Document
from euterpe.client.plans import Plan, Plans
from euterpe.client.responses import job_of

_BUSY_TIMEOUT_S = 3600.0  # the run ends if the busy service accepts no row for this time
_BUSY_S = 5.0
_STOP_TIMEOUT_S = 5.0
# These errors concern one request. Any other error concerns the service or the API key and ends the run.
_OF_THE_ROW = (Invalid, Conflict, TooLarge)


@dataclass(frozen=True)
class AcceptedRow:
    job: Job
    was_there: bool  # True if an earlier run created the job


class BatchClient(Client):
    """A client that also returns whether the submitted job existed already."""

    def take(self, document: Document, key: str) -> AcceptedRow:
        """Submit a job under an idempotency key."""
        return self._follow(_taken(self._plans, document, key))


def _taken(plans: Plans, document: Document, key: str) -> Plan[AcceptedRow]:
    answer = yield from plans.send(requests.submit(document, key))
    return AcceptedRow(job_of(answer), answer.headers.get("idempotent-replayed") == "true")


Take = Callable[[Document, str], AcceptedRow]
Record = Callable[[Request, AcceptedRow | ClientError], None]


class Submission:
    """A thread pool that submits rows, at most `max_in_flight` at once.

    The function `take` submits one row. `record` is called with the outcome of each row, by one thread at a
    time."""

    def __init__(
        self,
        take: Take,
        requests: Iterator[Request],
        record: Record,
        *,
        max_in_flight: int,
        busy_timeout_s: float = _BUSY_TIMEOUT_S,
    ) -> None:
        self._take, self._requests, self._record = take, requests, record
        self._max_in_flight, self._busy_timeout_s = max_in_flight, busy_timeout_s
        self._stop = threading.Event()
        self._read_lock, self._record_lock = threading.Lock(), threading.Lock()
        self._failure: BaseException | None = None
        self._taken_at = monotonic()

    def run(self) -> ClientError | None:
        """Submit all rows. Return the error that ended the run early, or None."""
        # Use daemon threads, because a thread that waits for a busy service must not delay the exit after
        # Ctrl-C. The next run repeats an interrupted call with the same idempotency key.
        threads = [
            threading.Thread(target=self._work, name="euterpe-submission", daemon=True)
            for _ in range(self._max_in_flight)
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:  # Ctrl-C can be pressed before all threads have started
            self._stop.set()
            until = monotonic() + _STOP_TIMEOUT_S
            for thread in filter(threading.Thread.is_alive, threads):
                thread.join(max(0.0, until - monotonic()))
            raise
        if self._failure is not None and not isinstance(self._failure, ClientError):
            raise self._failure
        return self._failure

    def _work(self) -> None:
        try:
            while (request := self._next()) is not None:
                self._report(request, self._outcome(request))
        except BaseException as failure:  # noqa: BLE001  `run` raises or returns it
            self._failure = self._failure or failure
            self._stop.set()

    def _next(self) -> Request | None:
        with self._read_lock:
            return None if self._stop.is_set() else next(self._requests, None)

    def _outcome(self, request: Request) -> AcceptedRow | ClientError:
        while True:
            try:
                taken = self._take(request.document, request.key)
            except _OF_THE_ROW as refusal:
                return refusal
            except Busy as busy:
                pause_s = _BUSY_S if busy.retry_after is None else busy.retry_after
                if monotonic() - self._taken_at > self._busy_timeout_s or self._stop.wait(pause_s):
                    raise
            else:
                self._taken_at = monotonic()
                return taken

    def _report(self, request: Request, outcome: AcceptedRow | ClientError) -> None:
        with self._record_lock:
            self._record(request, outcome)


@dataclass
class Tally:
    totals: ProblemTotals
    accepted: int = 0
    already_there: int = 0
    refused: Counter[str] = field(default_factory=Counter)  # by error code

    @property
    def reported(self) -> int:
        """Return the number of rows that have an outcome."""
        return self.accepted + self.already_there + self.refused.total()

    def count(self, outcome: AcceptedRow | ClientError) -> None:
        if isinstance(outcome, ClientError):
            self.refused[outcome.code] += 1
        elif outcome.was_there:
            self.already_there += 1
        else:
            self.accepted += 1

    def document(self) -> dict[str, Any]:
        checked = {"rows": self.totals.rows, "bad": self.totals.bad, "duplicates": self.totals.duplicates}
        sent = {"accepted": self.accepted, "already_there": self.already_there}
        return {**checked, **sent, "refused": self.refused.total()}

    def shortfall(self, halt: ClientError | None) -> str | None:
        """Return a message about the rows that were not accepted, or None if all rows were accepted."""
        if halt is not None:
            done = f"stopped after {self.reported} of {self.totals.good} rows"
            return f"{done}: {halt}; the same command goes on from there"
        if self.refused:
            reasons = ", ".join(f"{count} × {code}" for code, count in self.refused.most_common())
            return f"the service refused {self.refused.total()} rows: {reasons}"
        if self.totals.bad:
            return f"{self.totals.bad} bad rows were left out"
        return None


def refusal_reason(totals: ProblemTotals, *, skip_bad: bool) -> str | None:
    """Return the reason why no row may be submitted, or None if rows may be submitted."""
    if not totals.rows:
        return "the manifest has no rows"
    if totals.bad and not skip_bad:
        return f"nothing was submitted: correct the {totals.bad} bad rows, or leave them out with --skip-bad"
    return None
