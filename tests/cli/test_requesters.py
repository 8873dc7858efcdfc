from euterpe.cli.commands import opened
from euterpe.domain.errors import EuterpeError
from tests.cli.command_runner import Cli


def scopes_of(api_key: str) -> set[str] | None:
    """Return the scopes of the key, or None if the key is refused."""
    with opened() as store:
        try:
            return set(store.requesters.authenticate(api_key).scopes)
        except EuterpeError:
            return None


def test_the_secrets_of_a_new_requester_are_shown_once(installed: Cli) -> None:
    ran = installed("requester", "create", "newsroom")
    assert ran.code == 0
    shown = dict(line.split() for line in ran.out.splitlines())
    assert scopes_of(shown["api_key"]) == {"transcode:write", "transcode:read"}
    assert shown["webhook_secret"].startswith("whsec_")
    assert "not shown again" in ran.err
    for command in (("requester", "list"), ("requester", "list", "--json"), ("keys", "list"), ("doctor",)):
        again = installed.ok(*command).out
        assert shown["api_key"] not in again
        assert shown["webhook_secret"] not in again


def test_scopes_are_what_was_asked_for(installed: Cli) -> None:
    made = installed.json("requester", "create", "boss", "--scope", "admin", "--scope", "worker")
    assert scopes_of(made["api_key"]) == {"admin", "worker"}
    assert made.keys() == {"requester_id", "api_key", "webhook_secret"}


def test_the_list_shows_every_requester(installed: Cli) -> None:
    made = installed.json("requester", "create", "newsroom")
    installed.ok("requester", "disable", "newsroom")
    installed.json("requester", "create", "[red]archive[/red]")
    rows = {row["name"]: row for row in installed.json("requester", "list")}
    assert rows["newsroom"]["requester_id"] == made["requester_id"]
    assert rows["newsroom"]["disabled_at"].endswith("Z")
    assert rows["[red]archive[/red]"]["valid_keys"] == 1
    table = installed.ok("requester", "list").out
    assert made["requester_id"] in table
    assert "[red]archive[/red]" in table, "a name is not markup"


def test_a_rotated_key_keeps_the_old_one_for_the_stated_time(installed: Cli) -> None:
    old = installed.json("requester", "create", "newsroom", "--scope", "admin")["api_key"]
    rotated = installed.json("requester", "rotate-key", "newsroom")
    assert rotated["old_valid_for"] == "24h"
    assert scopes_of(old) == scopes_of(rotated["api_key"]) == {"admin"}
    newest = installed.json("requester", "rotate-key", rotated["requester_id"], "--keep", "0s")["api_key"]
    assert scopes_of(old) is None
    assert scopes_of(rotated["api_key"]) is None
    assert scopes_of(newest) == {"admin"}


def test_a_rotated_secret_keeps_the_old_one_for_the_stated_time(installed: Cli) -> None:
    made = installed.json("requester", "create", "newsroom")
    rotated = installed.json("requester", "rotate-secret", "newsroom", "--keep", "12h")
    assert rotated["old_valid_for"] == "12h"
    with opened() as store:
        valid = store.requesters.webhook_secrets(made["requester_id"])
    assert set(valid) == {rotated["webhook_secret"], made["webhook_secret"]}
    assert "12h" in installed("requester", "rotate-secret", "newsroom", "--keep", "12h").out


def test_a_disabled_requester_is_refused(installed: Cli) -> None:
    made = installed.json("requester", "create", "newsroom")
    installed.ok("requester", "disable", "newsroom")
    assert scopes_of(made["api_key"]) is None


def test_a_name_is_taken_once(installed: Cli) -> None:
    installed.json("requester", "create", "newsroom")
    assert "choose another name" in installed.fails("requester", "create", "newsroom")


def test_an_unknown_requester_is_named(installed: Cli) -> None:
    for command in ("rotate-key", "rotate-secret", "disable"):
        assert "'nobody'" in installed.fails("requester", command, "nobody")


def test_a_bad_name_and_a_bad_window_are_wrong_usage(installed: Cli) -> None:
    assert "printable" in installed.fails("requester", "create", "a\tb", code=2)
    assert "--keep" in installed.fails("requester", "rotate-key", "x", "--keep", "soon", code=2)
