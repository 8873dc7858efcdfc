"""Run the parts of a benchmark that are named in the arguments, and write its page if all parts ran."""

from __future__ import annotations

import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from ci.figure_tables import section
from ci.queue_bench import Databases
from ci.report import machine, versions
from euterpe.bench.figures import Figure

Sizes = TypeVar("Sizes")


@dataclass(frozen=True)
class Part(Generic[Sizes]):
    title: str
    method: str
    measure: Callable[[Databases, Sizes], Sequence[Figure]]


@dataclass(frozen=True)
class Bench(Generic[Sizes]):
    """A benchmark with its page. `head` is the text before the figures, with `{machine}` and `{versions}`.

    With the argument `--quick`, the parts run with the sizes `quick`, and no page is written.
    """

    page: Path
    head: str
    packages: Sequence[str]
    parts: Mapping[str, Part[Sizes]]
    whole: Sizes
    quick: Sizes

    def main(self) -> None:
        words = sys.argv[1:]
        is_quick = "--quick" in words
        names = [word for word in words if word != "--quick"] or list(self.parts)
        if unknown := set(names) - self.parts.keys():
            sys.exit(f"no such part: {', '.join(unknown)}; there are {', '.join(self.parts)}")
        _open_as_many_files_as_allowed()
        found = self._measure(names, self.quick if is_quick else self.whole)
        if found.keys() == self.parts.keys() and not is_quick:
            head = self.head.format(machine=machine(), versions=versions(self.packages))
            self.page.write_text("\n".join([head, *(line for name in self.parts for line in found[name])]))

    def _measure(self, names: Sequence[str], sizes: Sizes) -> dict[str, list[str]]:
        """Measure and print each part; return the lines of its section by name."""
        found = {}
        folder = Path(tempfile.mkdtemp(prefix="euterpe-bench-"))
        databases = Databases(folder)
        try:
            for name in names:
                began, part = time.perf_counter(), self.parts[name]
                found[name] = section(part.title, part.method, part.measure(databases, sizes))
                print("\n".join(found[name]))  # noqa: T201
                print(f"({name}: {time.perf_counter() - began:.0f} s)\n", flush=True)  # noqa: T201
        finally:
            databases.stop()
            shutil.rmtree(folder)
        return found


def _open_as_many_files_as_allowed() -> None:
    """Raise the soft limit on open files, because each simulated worker or SSE client has a connection."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
