"""A runner of `euterpe` commands in this process, and helpers that make jobs and events for them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from euterpe.cli import main
from euterpe.cli.commands import opened
from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.domain.retry import Delivered, DeliveryDecision, JobError, Undeliverable
from euterpe.domain.spec import parse_spec
from euterpe.store.queue.outbox import Delivery
from tests.store.attempts import fail_job
from tests.store.jobs import SPEC, claim_one

CANARY = "canary-in-a-secret"
CREDENTIALS = {"type": "s3", "access_key_id": "AKIA", "secret_access_key": CANARY, "region": "eu-1"}


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Cli:
    def __init__(self, captured: Callable[[], tuple[str, str]]) -> None:
        self._captured = captured

    def __call__(self, *argv: str) -> Ran:
        code = main(argv)
        return Ran(code, *self._captured())

    def ok(self, *argv: str) -> Ran:
        ran = self(*argv)
        assert (ran.code, ran.err) == (0, ""), ran
        return ran

    def json(self, *argv: str) -> Any:
        return self.ok(*argv, "--json").json

    def fails(self, *argv: str, code: int = 1) -> str:
        """Run a command that must fail, and return its one error line."""
        ran = self(*argv)
        assert ran.code == code, ran
        assert ran.out == ""
        (line,) = ran.err.splitlines()
        assert line.startswith("error: "), line
        assert "Traceback" not in line
        return line.removeprefix("error: ")


def capturing(capsys: pytest.CaptureFixture[str]) -> Cli:
    def captured() -> tuple[str, str]:
        out, err = capsys.readouterr()
        return out, err

    return Cli(captured)


def submit(requester_id: str = "r1", **fields: Any) -> str:
    """Submit a job with credentials, and return its id. The commands must never show these credentials."""
    spec = parse_spec({**SPEC, "credentials": CREDENTIALS, **fields})
    with opened() as store:
        return store.submit(spec, requester_id).result().job_id


def fail_one(queue: str = "default") -> str:
    """Claim the next job of the queue, fail it, and return its id."""
    with opened() as store:
        job = claim_one(store, queues=[queue])
        fail_job(
            store,
            job,
            JobError(ErrorCode.SOURCE_FORBIDDEN, "the source answered 403", "claimed", RetryClass.PERMANENT),
        )
    return job.job_id


def deliver_all(decision: DeliveryDecision | None = None) -> list[str]:
    """Claim up to 25 due events, settle them by `decision` (default: dead letter), and return their ids."""
    with opened() as store:
        events = store.outbox.claim("dispatcher", 25)
        code = 200 if isinstance(decision, Delivered) else 410
        end = decision or Undeliverable("answered 410")
        store.outbox.settle([Delivery(event, end, code) for event in events])
    return [event.event_id for event in events]
