"""Tasks of a child process that kills itself, or pauses, inside a transaction."""

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


def kill_during(
    parent: ParentChannel, kill_point: str, method: str, arguments: Sequence[Any], options: Mapping[str, Any]
) -> None:
    """Call the store repeatedly.

    The first call that writes rows kills this process by SIGKILL at the kill point.
    """
    _at(kill_point, parent, lambda: os.kill(os.getpid(), signal.SIGKILL))
    while True:
        child_tasks.call_store(parent, method, arguments, options)


def pause_during(
    parent: ParentChannel, method: str, arguments: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Call the store, and pause the call after it has selected its rows and before it writes them.

    At the pause, report `picked` to the test, and wait for a message of the test.
    """

    def pause() -> None:
        parent.report("picked")
        parent.wait_for_message()

    with mock.patch.object(LeasedTable, "write", _before_rows(pause, LeasedTable.write)):
        return child_tasks.call_store(parent, method, arguments, options)


def _at(kill_point: str, parent: ParentChannel, action: Callable[[], None]) -> None:
    match kill_point:
        case "before the job is written":
            mock.patch.object(LeasedTable, "write", _before_rows(action, LeasedTable.write)).start()
        case "before its event is written":
            mock.patch.object(EventWriter, "insert", _before_rows(action, EventWriter.insert)).start()
        case "before the job is inserted":
            mock.patch.object(Enqueue, "_insert", _before_rows(action, Enqueue._insert)).start()
        case "before the commit":
            # The first commit can belong to a sweep without rows, so wait for a commit after an insert of
            # events.
            engine = parent.store.database.engines.write
            _after_events(lambda: event.listen(engine, "commit", lambda _: action()))
        case "right after the commit":
            dialect = parent.store.database.engines.write.dialect
            commit = _after(action, dialect.do_commit)
            _after_events(lambda: mock.patch.object(dialect, "do_commit", commit).start())
        case _:
            raise ValueError(kill_point)


def _after_events(action: Callable[[], object]) -> None:
    mock.patch.object(EventWriter, "insert", _after(action, EventWriter.insert)).start()


def _before_rows(action: Callable[[], None], method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `method` so that it calls `action` first, if there are rows to write."""

    def patched(self: object, connection: object, rows: Any, *more: Any) -> Any:
        rows = list(rows)
        if rows:
            action()
        return method(self, connection, rows, *more)

    return patched


def _after(action: Callable[[], object], method: Callable[..., Any]) -> Callable[..., Any]:
    def patched(*arguments: Any) -> Any:
        result = method(*arguments)
        action()
        return result

    return patched
