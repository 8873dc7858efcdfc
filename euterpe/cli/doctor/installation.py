"""The checks of an installation with a database, including Java, profiles, keys, schema and stored data."""

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

from euterpe.cli.doctor.findings import CheckResult, DoctorFinding, check
from euterpe.cli.doctor.machine import examine_media, examine_reach
from euterpe.crypto.errors import UnknownKek
from euterpe.runtime.installation import install_hint
from euterpe.settings import Settings
from euterpe.store.engine.engines import EngineKind
from euterpe.store.engine.health import TIME_S, check_integrity
from euterpe.store.engine.migrations import require_current, verify
from euterpe.store.errors import StoreError, StoreUnavailable
from euterpe.wiring.database import (
    LazyKeyProvider,
    key_provider,
    open_database,
    open_store,
    require_database_file,
    ring_file,
    self_tested_key_provider,
)
from euterpe.wiring.profiles import load_profiles
from euterpe.wiring.storage_profiles import load_storage_profiles

# The oldest version of SQLite with the operator `->>`, which many SQL statements use.
_OLDEST_SQLITE = (3, 38, 0)


def examine(settings: Settings) -> Iterator[CheckResult]:
    yield from examine_media(settings)
    yield check("Java", _java)
    yield from examine_reach(settings)
    yield check("profiles", partial(_profiles, settings))
    yield check("key ring", partial(_key_ring, settings))
    if settings.storage:
        yield check("storage profiles", partial(_storage_profiles, settings))
    if redis_url := os.environ.get("GATEWAY_REDIS"):
        from euterpe.cli.doctor.gateway import examine_gateway

        yield from examine_gateway(redis_url)
    yield from _token_file(settings)
    # Each of these checks is useful only if the check before it has passed.
    for name, step in (
        ("database", _database),
        ("schema", _schema),
        ("stored data", _damage),
        ("stored secrets", _secrets),
    ):
        finding = check(name, partial(_on_database, step, settings))
        yield finding
        if not finding.ok:
            return

    if settings.bridges is not None:
        from euterpe.cli.doctor.bridges import examine_bridges

        yield from examine_bridges(settings)


def _on_database(step: Callable[[Settings], str], settings: Settings) -> str:
    try:
        return step(settings)
    except StoreUnavailable as error:
        raise DoctorFinding(f"{error}; start the database, or correct EUTERPE_DATABASE_URL") from None


def _java() -> str:
    try:
        from euterpe.analytics.session import find_java
    except ModuleNotFoundError:
        return f"not needed without analytics; to install analytics, {install_hint('analytics')}"
    java, major = find_java()
    return f"{major} at {java}, for analytics"


def _storage_profiles(settings: Settings) -> str:
    return f"{', '.join(sorted(load_storage_profiles(settings)))}; their credentials can be read"


def _profiles(settings: Settings) -> str:
    found = load_profiles(settings).values()
    own = sum(not profile.built_in for profile in found)
    built_in = f"{len(found) - own} are built in"
    return built_in if settings.profiles is None else f"{built_in}, and {own} are in {settings.profiles}"


def _key_ring(settings: Settings) -> str:
    is_ring_needed = settings.key_provider == "local" and settings.keks is None and settings.kek_file is None
    if is_ring_needed and not (path := ring_file(settings)).exists():
        return f"{path} will be made when the first secret is stored"
    keys = self_tested_key_provider(settings)
    return f"KEK {keys.active_id} is active, one of {len(keys.ids)}"


def _token_file(settings: Settings) -> Iterator[CheckResult]:
    """Yield a warning if every user of this machine can use the token for Vault.

    A token that the group may read gets no warning, because Vault Agent writes the file with mode 0640. If
    the file cannot be read at all, the key provider raises an error.
    """
    path = settings.vault_token_file
    if path is None or not path.is_file():
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o007:
        detail = f"{path} has mode {mode:04o}, so others could use the token: run `chmod o= {path}`"
        yield CheckResult("token file", True, detail, is_warning=True)


def _database(settings: Settings) -> str:
    require_database_file(settings)
    with closing(open_database(settings)) as database:
        with database.snapshot() as connection:
            database.read_clock(connection)
        if database.kind is EngineKind.POSTGRES and (encoding := database.server_encoding()) != "UTF8":
            raise StoreError(f"the database's encoding is {encoding}; make one whose encoding is UTF8")
        if database.kind is not EngineKind.SQLITE:
            return f"{database.kind} answers"
        mode = database.journal_mode()
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        oldest = ".".join(map(str, _OLDEST_SQLITE))
        raise StoreError(f"SQLite is {sqlite3.sqlite_version}; install a Python with {oldest} or newer")
    if mode != "wal":
        raise StoreError(
            f"the journal mode is {mode}, so readers wait for writers; move the database to a local disk, "
            "where its write-ahead log works"
        )
    return f"SQLite {sqlite3.sqlite_version}, with its write-ahead log"


def _schema(settings: Settings) -> str:
    with closing(open_database(settings)) as database:
        require_current(database)
        verify(database)
    return "is that of this program: nothing to migrate"


def _damage(settings: Settings) -> str:
    with closing(open_database(settings)) as database:
        report = check_integrity(database)
    if report.damage:
        raise StoreError(
            f"the database is damaged: {'; '.join(report.damage)}; stop all programs and restore a backup"
        )
    text = f"no damage found in {report.extent}"
    return text if report.is_complete else f"{text}, as far as {TIME_S:g} s reached; it is too large for all"


def _secrets(settings: Settings) -> str:
    with open_store(settings, LazyKeyProvider(settings)) as store:
        used = store.rewrap.in_use()
        if not used:
            return "there are none yet"
        for kek_id in sorted(used.keys() - set(key_provider(settings).ids)):
            raise UnknownKek(kek_id)
        unreadable = store.rewrap.unreadable()
    if unreadable:
        raise StoreError(f"{len(unreadable)} of a sample cannot be opened, first {unreadable[0]}")
    return f"{sum(used.values())} credentials and webhook secrets, and a sample of them can be opened"
