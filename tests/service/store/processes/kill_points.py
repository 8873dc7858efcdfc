"""Acts of a process that kills itself, or pauses, inside a transaction."""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest import mock

from sqlalchemy import event

from euterpe.store.queue.enqueue import Enqueue
from euterpe.store.queue.event_rows import EventWriter
from euterpe.store.queue.leases import LeasedTable
from tests.service.store.processes import child_tasks
from tests.service.store.processes.child_process import ParentChannel

BEFORE = ("before the job is written", "before its event is written", "before the commit")
AFTER = "right after the commit"


def die_doing(
    parent: ParentChannel, seam: str, what: str, arguments: Sequence[Any], options: Mapping[str, Any]
) -> None:
    """Does it again and again, until there is something to write: then SIGKILL at this seam."""
    _at(seam, parent, lambda: os.kill(os.getpid(), signal.SIGKILL))
    while True:
        child_tasks.do(parent, what, arguments, options)


def pause_doing(
    parent: ParentChannel, what: str, arguments: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Says so when the rows are picked and not yet written, and waits for a word to go on."""

    def pause() -> None:
        parent.report("picked")
        parent.wait_for_word()

    with mock.patch.object(LeasedTable, "write", _first(pause, LeasedTable.write)):
        return child_tasks.do(parent, what, arguments, options)


def _at(seam: str, parent: ParentChannel, deed: Callable[[], None]) -> None:
    match seam:
        case "before the job is written":
            mock.patch.object(LeasedTable, "write", _first(deed, LeasedTable.write)).start()
        case "before its event is written":
            mock.patch.object(EventWriter, "insert", _first(deed, EventWriter.insert)).start()
        case "before the job is inserted":
            mock.patch.object(Enqueue, "_insert", _first(deed, Enqueue._insert)).start()
        case "before the commit":
            # Only a transaction that has written: housekeeping comes first and finds nothing to do.
            engine = parent.store.database.engines.write
            _after_telling(lambda: event.listen(engine, "commit", lambda _: deed()))
        case "right after the commit":
            dialect = parent.store.database.engines.write.dialect
            commit = _after(deed, dialect.do_commit)
            _after_telling(lambda: mock.patch.object(dialect, "do_commit", commit).start())
        case _:
            raise ValueError(seam)


def _after_telling(deed: Callable[[], object]) -> None:
    mock.patch.object(EventWriter, "insert", _after(deed, EventWriter.insert)).start()


def _first(deed: Callable[[], None], method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, with the deed before it whenever it has rows to write."""

    def patched(self: object, connection: object, rows: Any, *more: Any) -> Any:
        rows = list(rows)
        if rows:
            deed()
        return method(self, connection, rows, *more)

    return patched


def _after(deed: Callable[[], object], method: Callable[..., Any]) -> Callable[..., Any]:
    def patched(*arguments: Any) -> Any:
        result = method(*arguments)
        deed()
        return result

    return patched
