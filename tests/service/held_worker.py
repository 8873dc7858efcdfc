"""A worker program that blocks in one step and prints the pid of the blocked process.

Tests kill the worker.
"""

import os
import signal
import sys
import threading
from dataclasses import replace

from euterpe.control.refresher import Refresher
from euterpe.control.store_plane import StorePlane
from euterpe.net.egress import Egress
from euterpe.settings import load
from euterpe.storage.storage import Storage
from euterpe.wiring.database import open_store
from euterpe.wiring.worker import egress_policy, storage_policy, worker_tools
from euterpe.worker.worker import Worker
from tests.service.worker_harness import SMALL_PART, EncryptionGate, WatchedSandbox

ENCRYPTION = "encryption"


def announce(pid: int) -> None:
    """Print the pid of the child, and block the thread of the attempt until this process is killed."""
    sys.stdout.write(f"held {pid}\n")
    sys.stdout.flush()
    threading.Event().wait()


def main(step: str, least_early_bytes: int) -> None:
    """Run a worker that blocks in `step`, which is the name of a child's task, or `ENCRYPTION`."""
    settings = load()
    with open_store(settings) as store, Egress(egress_policy(settings)) as egress:
        refresher = Refresher(store, egress, max_refreshes=settings.refresh_max_attempts)
        plane = StorePlane(store, refresher, "held", lease_ms=settings.lease_ttl_ms)
        tools = worker_tools(settings, plane, egress)
        sandbox = WatchedSandbox(tools.sandbox.ffmpeg)
        if step == ENCRYPTION:
            EncryptionGate.of_process().call_next(lambda: announce(os.getpid()))
        else:
            sandbox.stop_next(step, announce)
        storage = Storage(
            storage_policy(settings), egress, part_bytes=SMALL_PART, least_early_bytes=least_early_bytes
        )
        worker = Worker(
            replace(tools, sandbox=sandbox, storage=storage),
            slots=1,
            heartbeat_ms=settings.heartbeat_interval_ms,
        )
        worker.start()
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
