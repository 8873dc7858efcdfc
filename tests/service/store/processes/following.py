"""Listening to workers until there is nothing left for them to do."""

from collections.abc import Callable, Sequence

from tests.service.store.processes.child_process import Done
from tests.service.store.processes.child_tasks import Idle
from tests.service.store.processes.invariants import Ledger
from tests.service.store.processes.process_pool import Child, hear_from


def follow_to_the_end(
    workers: Sequence[Child],
    ledger: Ledger,
    work_is_left: Callable[[], bool],
    *,
    producers: Sequence[Child] = (),
) -> None:
    """Writes down what they say. The end is when all producers are done and no work is left."""
    producing, over = list(producers), False
    while not over:
        for child, message in hear_from([*producing, *workers]):
            ledger.note(child.name, message)
            if isinstance(message, Done):
                producing.remove(child)
            over = over or (isinstance(message, Idle) and not producing and not work_is_left())
    stop(workers, ledger)


def stop(workers: Sequence[Child], ledger: Ledger) -> None:
    for worker in workers:
        worker.tell_to_stop()
    for worker in workers:
        for message in worker.hear_out():
            ledger.note(worker.name, message)
