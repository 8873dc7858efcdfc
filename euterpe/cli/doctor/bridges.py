"""The checks of the bridges: their declaration, their requesters, and whether the foreign queues answer."""

import asyncio
from collections.abc import Iterator
from functools import partial

from euterpe.bridges.adapter import ForeignUnavailable
from euterpe.bridges.config import BridgeConfig
from euterpe.cli.commands import importing
from euterpe.cli.doctor.findings import CheckResult, DoctorFinding, check
from euterpe.domain.errors import EuterpeError
from euterpe.settings import Settings
from euterpe.store.errors import StoreUnavailable
from euterpe.store.store import Store
from euterpe.wiring.database import USE_THE_SERVICES, LazyKeyProvider, database_shown, open_store

_TIMEOUT_S = 10.0


def examine_database(settings: Settings) -> CheckResult:
    """Show the database that the bridges use, and whether it has the schema of this program."""
    return check("database", partial(_database, settings))


def _database(settings: Settings) -> str:
    shown = database_shown(settings)
    try:
        with _store(settings):
            return shown
    except StoreUnavailable as error:
        raise DoctorFinding(f"{shown}: {error}; {USE_THE_SERVICES}") from None


def _store(settings: Settings) -> Store:
    return open_store(settings, LazyKeyProvider(settings), if_missing=USE_THE_SERVICES)


def examine_bridges(settings: Settings, name: str | None = None) -> Iterator[CheckResult]:
    """Yield the results for the bridge `name`, or for all declared bridges if `name` is None."""
    try:
        with importing("bridges"):
            from euterpe.wiring.bridges import load_bridges
        bridges = load_bridges(settings, name)
    except EuterpeError as error:
        yield CheckResult("bridges", False, "; ".join(str(error).splitlines()))
        return
    for bridge in bridges:
        yield check(f"bridge {bridge.name}: mapping", partial(_mapping, bridge))
        yield check(f"bridge {bridge.name}: requester", partial(_requester, settings, bridge))
        yield check(f"bridge {bridge.name}: {bridge.kind}", partial(_reachable, bridge))


def _mapping(bridge: BridgeConfig) -> str:
    return f"jobs named {', '.join(sorted(bridge.jobs))} of {bridge.queue}, {bridge.slots} at a time"


def _requester(settings: Settings, bridge: BridgeConfig) -> str:
    with _store(settings) as store:
        found = [row for row in store.requesters.all() if row.name == bridge.requester]
    if not found:
        raise DoctorFinding(
            f"there is no requester {bridge.requester!r} in this database; "
            f"`euterpe requester create {bridge.requester}`, or {USE_THE_SERVICES}"
        )
    if found[0].disabled_at is not None:
        raise DoctorFinding(f"requester {bridge.requester!r} is disabled; name another one")
    return f"{bridge.requester} is enabled"


def _reachable(bridge: BridgeConfig) -> str:
    with importing("bridges"):
        from euterpe.wiring.bridges import open_adapter

        adapter = open_adapter(bridge)

    async def ask() -> str:
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                return await adapter.examine()
        finally:
            await adapter.stop()

    try:
        return f"{asyncio.run(ask())} answers"
    except (ForeignUnavailable, TimeoutError) as error:
        reason = str(error) or "no answer"
        raise DoctorFinding(f"{reason}; start it, or correct the address in {bridge.url_env}") from None
