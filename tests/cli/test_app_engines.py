"""The commands that an operator uses every day, on every engine."""

from pathlib import Path

import pytest

from euterpe.domain.retry import Redeliver
from tests.cli.command_runner import CANARY, Cli, deliver_all, fail_one, submit


@pytest.fixture
def on_engine(cli: Cli, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    monkeypatch.setenv("EUTERPE_DATABASE_URL", url)
    monkeypatch.setenv("EUTERPE_KEK_FILE", str(tmp_path / "ring.json"))
    cli.ok("keys", "add", "--id", "k1")
    return cli


def test_a_day_of_an_operator(on_engine: Cli) -> None:
    cli = on_engine
    assert cli.json("migrate", "--status")["current"]
    newsroom = cli.json("requester", "create", "newsroom")["requester_id"]
    jobs = [submit(newsroom) for _ in range(2)]
    assert cli.json("queues", "list")[0]["ready"] == 2

    assert fail_one() == jobs[0]
    assert [row["job_id"] for row in cli.json("jobs", "list", "--status", "failed")] == [jobs[0]]
    cli.ok("jobs", "retry", jobs[0])
    cli.ok("jobs", "cancel", jobs[1])
    shown = cli.json("jobs", "show", jobs[1])
    assert (shown["status"], shown["error"]["code"]) == ("failed", "canceled")
    assert [event["sequence"] for event in shown["events"]] == [1, 2]

    dead = deliver_all()
    assert len(dead) == len(cli.json("outbox", "list", "--status", "dead_letter", "--requester", "newsroom"))
    cli.ok("outbox", "replay", dead[0])
    assert cli.json("outbox", "replay", "--requester", "newsroom") == {"replayed": len(dead) - 1}
    deliver_all()
    assert cli.json("outbox", "replay", "--since", "1h") == {"replayed": len(dead)}
    waiting = deliver_all(Redeliver(900_000, "answered 503"))
    cli.ok("outbox", "replay", waiting[0])
    assert deliver_all() == waiting[:1]
    assert len(cli.json("outbox", "list", "--job", jobs[1])) == 2

    cli.ok("keys", "add", "--id", "k2")
    cli.ok("keys", "activate", "k2")
    assert cli.json("keys", "rewrap") == {"kek_id": "k2", "rewrapped": 3}
    cli.ok("keys", "retire", "k1")
    assert cli.json("keys", "list") == [{"kek_id": "k2", "state": "active", "wraps": 3}]

    cli.ok("queues", "pause", "default")
    cli.json("requester", "rotate-key", "newsroom")
    cli.json("requester", "rotate-secret", "newsroom")
    cli.ok("requester", "disable", "newsroom")
    report = cli.ok("doctor").out
    assert "FAILED" not in report
    assert CANARY not in report
