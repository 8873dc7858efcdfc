"""The programs of a house, killed again and again at whatever they are doing, and started anew each time."""

import random
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from euterpe.client import Event
from tests.engines import free_port
from tests.service.installation import Installation, Program
from tests.service.process_table import ProcessWatch, at_home_in, descendants
from tests.service.receiver import Answer

_SILENCE_S = 60.0
_WORKERS, _DISPATCHERS = 2, 2
# Lines of its log, before it has begun to work.
_GREETING = {"api": 4, "worker": 1, "dispatcher": 1}


class Signs:
    """That work is done: what workers log, and what their requester accepts."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._seen = 0

    def note(self) -> None:
        with self._changed:
            self._seen += 1
            self._changed.notify_all()

    def await_more(self, count: int) -> None:
        with self._changed:
            wanted = self._seen + count
            assert self._changed.wait_for(lambda: self._seen >= wanted, _SILENCE_S), "nothing moves any more"


class Watched(Program):
    def __init__(
        self, arguments: tuple[str, ...], environ: Mapping[str, str], folder: Path, signs: Signs
    ) -> None:
        self._signs = signs
        super().__init__(arguments, environ, folder)

    @property
    def is_at_work(self) -> bool:
        return len(self.log) > _GREETING[self.arguments[0]]

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._logged:
                self.log.append(line)
                self._logged.notify_all()
            if self.arguments[0] == "worker":
                self._signs.note()


class ProcessKiller:
    """`log` has the lines of all programs, those of the killed ones too."""

    def __init__(self, installation: Installation, seed: int, **environ: str) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self.signs = Signs()
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

    def rage(self, kills: int, calm: int) -> None:
        """Kills so often, after `calm` signs of work on average."""
        while self.kills.total() < kills:
            self.signs.await_more(self._random.randint(1, 2 * calm))
            if victims := [program for program in self._running if program.is_at_work]:
                self._strike(self._random.choice(victims))

    def _strike(self, victim: Watched) -> None:
        self._orphans.watch(descendants(victim.pid))
        victim.kill()
        self.kills[victim.arguments[0]] += 1
        self.log += victim.log
        self._running[self._running.index(victim)] = self._start(victim.arguments)

    def stop(self) -> None:
        """Drains all programs."""
        for program in self._running:
            assert program.stop() == 0, "\n".join(program.log[-30:])
            self.log += program.log

    def await_orphans(self) -> int:
        """The end of the children that the killed ones had; returns how many there were."""
        self._orphans.watch(at_home_in(self._installation.folder))
        return self._orphans.await_the_end()

    def end(self) -> None:
        for program in self._running:
            if program.is_running:
                program.kill()
        self._orphans.close()

    def _start(self, arguments: tuple[str, ...]) -> Watched:
        return Watched(arguments, self._environ, self._installation.folder, self.signs)

    def _refuse_half(self, _: Event) -> Answer:
        if self._refusals.random() < 0.5:
            return 503, b""
        self.signs.note()
        return 204, b""


@contextmanager
def killing(installation: Installation, seed: int, **environ: str) -> Iterator[ProcessKiller]:
    killer = ProcessKiller(installation, seed, **environ)
    try:
        yield killer
    finally:
        killer.end()
