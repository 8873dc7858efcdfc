"""Collect the messages of workers in a ledger until no work remains."""

from collections.abc import Callable, Sequence

from tests.service.store.processes.child_process import Done
from tests.service.store.processes.child_tasks import Idle
from tests.service.store.processes.invariants import Ledger
from tests.service.store.processes.process_pool import Child, receive_any


def collect_until_finished(
    workers: Sequence[Child],
    ledger: Ledger,
    work_remains: Callable[[], bool],
    *,
    producers: Sequence[Child] = (),
) -> None:
    """Record messages until all producers are done and no work remains. Then stop the workers."""
    producing, finished = list(producers), False
    while not finished:
        for child, message in receive_any([*producing, *workers]):
            ledger.note(child.name, message)
            if isinstance(message, Done):
                producing.remove(child)
            finished = finished or (isinstance(message, Idle) and not producing and not work_remains())
    stop(workers, ledger)


def stop(workers: Sequence[Child], ledger: Ledger) -> None:
    for worker in workers:
        worker.request_stop()
    for worker in workers:
        for message in worker.receive_until_done():
            ledger.note(worker.name, message)
