"""`euterpe doctor`: check everything that an installation needs, and print how to fix failures."""

import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import typer

from euterpe.cli.commands import AsJson, command
from euterpe.cli.output import json_document, table
from euterpe.crypto.errors import UnknownKek
from euterpe.domain.errors import EuterpeError
from euterpe.runtime.installation import install_hint
from euterpe.settings import Settings, load
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

# The oldest version with the operator `->>`. Many SQL statements use this operator.
_OLDEST_SQLITE = (3, 38, 0)


class DoctorFinding(EuterpeError):
    code = "doctor"


@dataclass(frozen=True)
class CheckResult:
    check: str
    ok: bool
    detail: str  # for a failure, also how to fix it
    is_warning: bool = False  # Euterpe runs in spite of this problem

    @property
    def verdict(self) -> str:
        if not self.ok:
            return "FAILED"
        return "warning" if self.is_warning else "ok"


def register(app: typer.Typer) -> None:
    command(app, "doctor", example="euterpe doctor --json")(run)


def run(as_json: AsJson = False) -> None:
    """Check ffmpeg, Java, disk, what jobs may reach, keys and database. Print how to fix failures."""
    findings = list(examine(load()))
    if as_json:
        json_document([asdict(finding) for finding in findings])
    else:
        table(("", "check", "detail"), [(f.verdict, f.check, f.detail) for f in findings])
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


def examine(settings: Settings) -> Iterator[CheckResult]:
    yield _check("ffmpeg", partial(_ffmpeg, settings))
    yield from _sandbox(settings)
    yield _check("Java", _java)
    yield _check("work directory", partial(_work_dir, settings))
    yield _check("what jobs may reach", partial(_reach, settings))
    yield _check("profiles", partial(_profiles, settings))
    yield _check("key ring", partial(_key_ring, settings))
    yield from _token_file(settings)
    # Each of these checks is useful only if the check before it has passed.
    for name, step in (
        ("database", _database),
        ("schema", _schema),
        ("stored data", _damage),
        ("stored secrets", _secrets),
    ):
        finding = _check(name, partial(step, settings))
        yield finding
        if not finding.ok:
            return


def _check(name: str, step: Callable[[], str]) -> CheckResult:
    try:
        return CheckResult(name, True, step())
    except StoreUnavailable as error:
        return CheckResult(name, False, f"{error}; start the database, or correct EUTERPE_DATABASE_URL")
    except EuterpeError as error:
        return CheckResult(name, False, str(error))


def _ffmpeg(settings: Settings) -> str:
    from euterpe.media.ffmpeg import SAFE_VERSION, examine_ffmpeg, find_ffmpeg

    found = examine_ffmpeg(find_ffmpeg(settings.ffmpeg))
    if not found.is_safe:
        oldest = ".".join(map(str, SAFE_VERSION))
        raise DoctorFinding(
            f"{found.version} is not known to be as new as {oldest}, and hostile media can get around its "
            "limits; unset EUTERPE_FFMPEG to use the bundled one"
        )
    return f"{found.version} at {found.path}"


def _sandbox(settings: Settings) -> Iterator[CheckResult]:
    """Start the sandbox of a worker, and yield a result for each layer of the sandbox."""
    from euterpe.media.sandbox.sandbox import Sandbox

    try:
        with Sandbox(Path(os.devnull)) as sandbox:
            isolation = sandbox.isolation
    except EuterpeError as error:
        yield CheckResult("sandbox", False, str(error))
        return
    for layer in isolation.layers():
        check = f"sandbox: {layer.name}"
        if layer.holds:
            yield CheckResult(check, True, f"{layer.mechanism} holds")
            continue
        refused = layer.is_essential and settings.require_sandbox
        detail = f"no {layer.mechanism}: after a takeover of ffmpeg {layer.open_without}; {layer.advice}"
        if refused:
            detail += "; or accept the risk with EUTERPE_REQUIRE_SANDBOX=false"
        yield CheckResult(check, not refused, detail, is_warning=not refused)


def _java() -> str:
    try:
        from euterpe.analytics.session import find_java
    except ModuleNotFoundError:
        return f"not needed without analytics; to install analytics, {install_hint('analytics')}"
    java, major = find_java()
    return f"{major} at {java}, for analytics"


def _work_dir(settings: Settings) -> str:
    folder = settings.work_dir or Path(tempfile.gettempdir())
    # A worker creates the missing folders of the path, so check the nearest folder that exists.
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        raise DoctorFinding(f"{there} cannot be written to; correct EUTERPE_WORK_DIR")
    free = shutil.disk_usage(there).free
    if free <= settings.min_free_bytes:
        raise DoctorFinding(
            f"{folder} has {free} bytes free, and {settings.min_free_bytes} are kept: no job can run; make "
            "room, or lower EUTERPE_MIN_FREE_BYTES"
        )
    return f"{folder} has {free // 1024**2} MiB free"


def _reach(settings: Settings) -> str:
    from euterpe.wiring.services import egress_policy, storage_policy

    egress_policy(settings)
    roots = storage_policy(settings).roots
    for root in roots:
        if not root.is_dir():
            raise DoctorFinding(f"{root} is not a folder; correct EUTERPE_STORAGE_ROOTS")
    opened = {
        "EUTERPE_STORAGE_ROOTS": roots,
        "EUTERPE_STORAGE_ENDPOINTS": settings.storage_endpoints,
        "EUTERPE_EGRESS_ALLOW": settings.egress_allow,
    }
    named = [f"{', '.join(map(str, entries))} by {name}" for name, entries in opened.items() if entries]
    return "; ".join(["the clouds' own storage and public addresses", *named])


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
