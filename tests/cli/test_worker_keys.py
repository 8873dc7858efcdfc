from tests.cli.command_runner import Cli
from tests.cli.test_requesters import scopes_of


def test_a_worker_key_has_the_scope_worker_only_and_is_shown_once(installed: Cli) -> None:
    ran = installed("worker-key", "create", "worker-eu-1")
    assert ran.code == 0
    shown = dict(line.split() for line in ran.out.splitlines())
    assert shown.keys() == {"worker_key_id", "api_key"}
    assert scopes_of(shown["api_key"]) == {"worker"}
    assert "not shown again" in ran.err
    for listing in (("worker-key", "list"), ("worker-key", "list", "--json"), ("requester", "list")):
        assert shown["api_key"] not in installed.ok(*listing).out


def test_the_list_shows_worker_keys_and_no_other_requesters(installed: Cli) -> None:
    made = installed.json("worker-key", "create", "worker-eu-1")
    installed.json("requester", "create", "newsroom")
    installed.json("requester", "create", "boss", "--scope", "admin", "--scope", "worker")
    (row,) = installed.json("worker-key", "list")
    assert (row["name"], row["requester_id"]) == ("worker-eu-1", made["worker_key_id"])
    assert row["disabled_at"] is None
    table = installed.ok("worker-key", "list").out
    assert "worker-eu-1" in table
    assert "newsroom" not in table


def test_a_revoked_key_is_refused_and_stays_listed(installed: Cli) -> None:
    by_name = installed.json("worker-key", "create", "worker-eu-1")
    by_id = installed.json("worker-key", "create", "worker-eu-2")
    assert "revoked" in installed.ok("worker-key", "revoke", "worker-eu-1").out
    installed.ok("worker-key", "revoke", by_id["worker_key_id"])
    assert scopes_of(by_name["api_key"]) is scopes_of(by_id["api_key"]) is None
    rows = installed.json("worker-key", "list")
    assert [row["disabled_at"] is not None for row in rows] == [True, True]


def test_only_a_worker_key_is_revoked(installed: Cli) -> None:
    key = installed.json("requester", "create", "newsroom")["api_key"]
    assert "there is no worker key" in installed.fails("worker-key", "revoke", "newsroom")
    assert "there is no worker key" in installed.fails("worker-key", "revoke", "nobody")
    assert scopes_of(key) is not None


def test_a_name_is_used_once(installed: Cli) -> None:
    installed.json("worker-key", "create", "worker-eu-1")
    installed.ok("worker-key", "revoke", "worker-eu-1")
    assert installed.fails("worker-key", "create", "worker-eu-1") == (
        "there is a worker key named 'worker-eu-1' already; choose another name: a name is never free again, "
        "not even after `euterpe worker-key revoke`"
    )


def test_requesters_and_worker_keys_share_their_names(installed: Cli) -> None:
    installed.json("requester", "create", "newsroom")
    installed.json("worker-key", "create", "worker-eu-1")
    assert "there is a requester named 'newsroom'" in installed.fails("worker-key", "create", "newsroom")
    assert "there is a worker key named" in installed.fails("requester", "create", "worker-eu-1")


def test_the_list_of_requesters_shows_no_worker_keys(installed: Cli) -> None:
    installed.json("requester", "create", "newsroom")
    installed.json("worker-key", "create", "worker-eu-1")
    assert [row["name"] for row in installed.json("requester", "list")] == ["newsroom"]
    assert "worker-eu-1" not in installed.ok("requester", "list").out
