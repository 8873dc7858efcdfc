"""Run the programs of an installation, kill them at random with SIGKILL, and start them again."""

import random
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from euterpe.client import Event
from tests.free_port import free_port
from tests.service.installation import Installation, Program
from tests.service.process_table import ProcessWatch, at_home_in, descendants
from tests.service.receiver import Answer

_TIMEOUT_S = 60.0
_WORKERS, _DISPATCHERS = 2, 2
# The number of lines that a program logs before it begins to work.
_STARTUP_LINES = {"api": 4, "worker": 1, "dispatcher": 1}


class Progress:
    """A count of the lines that workers log and of the events that the receiver accepts."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    def add(self) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def await_more(self, count: int) -> None:
        with self._changed:
            target = self._count + count
            assert self._changed.wait_for(lambda: self._count >= target, _TIMEOUT_S), "no more progress"


class WatchedProgram(Program):
    """A program. If the program is a worker, its log lines count as progress."""

    def __init__(
        self, arguments: tuple[str, ...], environ: Mapping[str, str], folder: Path, progress: Progress
    ) -> None:
        self._progress = progress
        super().__init__(arguments, environ, folder)

    @property
    def has_begun_work(self) -> bool:
        return len(self.log) > _STARTUP_LINES[self.arguments[0]]

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._logged:
                self.log.append(line)
                self._logged.notify_all()
            if self.arguments[0] == "worker":
                self._progress.add()


class ProcessKiller:
    """A controller that kills programs and starts them again. `log` includes the lines of killed programs."""

    def __init__(self, installation: Installation, seed: int, **environ: str) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self.progress = Progress()
        self.kills: Counter[str] = Counter()
        self.log: list[str] = []
        self._installation, self._environ = installation, {**installation.environ, **environ}
        self._random = random.Random(seed)
        self._orphans = ProcessWatch()
        self._refusals = random.Random(seed)
        installation.receiver.hook = self._refuse_half
        port = self.url.rpartition(":")[2]
        programs = [("api", "--port", port), *[("worker",)] * _WORKERS, *[("dispatcher",)] * _DISPATCHERS]
        self._running = [self._start(arguments) for arguments in programs]

    def kill_repeatedly(self, kills: int, mean_progress: int) -> None:
        """Kill a random program `kills` times.

        On average, `Progress` counts up by `mean_progress` between two kills.
        """
        while self.kills.total() < kills:
            self.progress.await_more(self._random.randint(1, 2 * mean_progress))
            if victims := [program for program in self._running if program.has_begun_work]:
                self._restart(self._random.choice(victims))

    def _restart(self, victim: WatchedProgram) -> None:
        self._orphans.watch(descendants(victim.pid))
        victim.kill()
        self.kills[victim.arguments[0]] += 1
        self.log += victim.log
        self._running[self._running.index(victim)] = self._start(victim.arguments)

    def stop(self) -> None:
        """Drain all programs."""
        for program in self._running:
            assert program.stop() == 0, "\n".join(program.log[-30:])
            self.log += program.log

    def await_orphans(self) -> int:
        """Wait until the children of killed programs have ended. Return their number."""
        self._orphans.watch(at_home_in(self._installation.folder))
        return self._orphans.await_the_end()

    def close(self) -> None:
        for program in self._running:
            if program.is_running:
                program.kill()
        self._orphans.close()

    def _start(self, arguments: tuple[str, ...]) -> WatchedProgram:
        return WatchedProgram(arguments, self._environ, self._installation.folder, self.progress)

    def _refuse_half(self, _: Event) -> Answer:
        if self._refusals.random() < 0.5:
            return 503, b""
        self.progress.add()
        return 204, b""


@contextmanager
def killing(installation: Installation, seed: int, **environ: str) -> Iterator[ProcessKiller]:
    killer = ProcessKiller(installation, seed, **environ)
    try:
        yield killer
    finally:
        killer.close()
