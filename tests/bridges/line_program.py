"""Drive a program that reads one JSON command per line, and answers each command with one line."""

import json
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

REPOSITORY = Path(__file__).parents[2]
TIMEOUT_S = 90.0


class CallFailed(Exception):
    """The program has answered a command with an error. The text begins with the class of the error."""


class LineProgram:
    def __init__(
        self, python: str, script: Path, arguments: Sequence[str], environ: Mapping[str, str] | None = None
    ) -> None:
        self._process = subprocess.Popen(
            [python, str(script), *arguments],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), **(environ or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._turn = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def call(self, name: str, **fields: Any) -> Any:
        """Return the answer to a command. Raise `CallFailed` if it is an error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._turn:
            self._process.stdin.write(json.dumps({"call": name, **fields}) + "\n")
            self._process.stdin.flush()
            watchdog = threading.Timer(TIMEOUT_S, self._process.kill)
            watchdog.start()
            line = self._process.stdout.readline()
            watchdog.cancel()
        assert line, f"the program has ended, or did not answer {name} within {TIMEOUT_S} s"
        said = json.loads(line)
        if "error" in said:
            raise CallFailed(said["error"])
        return said["answer"]

    def kill(self) -> None:
        """End the program by SIGKILL."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            if not stream.closed:
                stream.close()
