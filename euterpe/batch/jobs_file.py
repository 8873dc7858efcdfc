"""Which row became which job, a JSON line for each: written by `submit`, read by `status`."""

import fcntl
import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from euterpe.batch.errors import JobsFileError


@dataclass(frozen=True)
class Submitted:
    job_id: str
    place: str  # of its row, as people read it


@dataclass(frozen=True)
class Batch:
    rows: int  # that were to be submitted
    submitted: Sequence[Submitted]


def jobs_path(manifest: str) -> Path:
    """Beside the manifest, or here for one in S3; no pattern for manifests matches it."""
    if manifest.startswith("s3://"):
        manifest = manifest.rstrip("/").rpartition("/")[2]
    path = Path(manifest)
    plain = "".join("_" if char in "*?[]" else char for char in path.name)
    return path.with_name(f"{plain}.jobs")


class JobsFile(AbstractContextManager["JobsFile"]):
    """No line waits in a buffer: when the run is killed, those that were told are there."""

    def __init__(self, path: Path, rows: int) -> None:
        self._stream = path.open("a", encoding="utf-8")
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._stream.close()
            raise JobsFileError(f"{path}: another submission writes to it; try again later") from None
        self._stream.truncate(0)
        self._write({"rows": rows})

    def add(self, place: str, job_id: str) -> None:
        self._write({"row": place, "job_id": job_id})

    def _write(self, line: dict[str, Any]) -> None:
        self._stream.write(json.dumps(line) + "\n")
        self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()


def read_batch(path: Path) -> Batch:
    try:
        head, *lines = path.read_text(encoding="utf-8").split("\n")
        # The last is empty, or half of what was being written when the power went.
        told = [json.loads(line) for line in lines[:-1]]
        return Batch(json.loads(head)["rows"], [Submitted(line["job_id"], line["row"]) for line in told])
    except OSError as error:
        raise JobsFileError(f"{path}: {error.strerror}: `euterpe batch submit` writes it") from None
    except (ValueError, KeyError, TypeError):
        raise JobsFileError(f"{path}: is no list of jobs that `euterpe batch submit` wrote") from None
