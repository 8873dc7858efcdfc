"""The jobs file: JSON lines that map rows to job ids, written by `submit` and read by `status`."""

import fcntl
import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from euterpe.analytics.errors import AnalyticsError


class JobsFileError(AnalyticsError):
    """Raised when the jobs file is missing, in use or malformed."""

    code = "jobs_file"


@dataclass(frozen=True)
class Submitted:
    job_id: str
    place: str  # the position of the job's row, as `File.place` formats it


@dataclass(frozen=True)
class Batch:
    rows: int  # number of rows to submit
    submitted: Sequence[Submitted]


def jobs_path(manifest: str) -> Path:
    """Return the jobs file's path: beside the manifest, or in the current folder for a manifest in S3.

    The jobs file never counts as part of a manifest, because manifests have other file extensions."""
    if manifest.startswith("s3://"):
        manifest = manifest.rstrip("/").rpartition("/")[2]
    path = Path(manifest)
    plain = "".join("_" if char in "*?[]" else char for char in path.name)
    return path.with_name(f"{plain}.jobs")


class JobsFile(AbstractContextManager["JobsFile"]):
    """The jobs file, open for writing and locked against other submissions.

    Each line is flushed immediately, so that the file has a line for each added job even if the run is
    killed. Raise `JobsFileError` if another process has the lock."""

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
    """Read the jobs file. Raise `JobsFileError` if it is missing or malformed."""
    try:
        head, *lines = path.read_text(encoding="utf-8").split("\n")
        # The last line is empty, or incomplete after a power failure.
        entries = [json.loads(line) for line in lines[:-1]]
        return Batch(json.loads(head)["rows"], [Submitted(line["job_id"], line["row"]) for line in entries])
    except OSError as error:
        raise JobsFileError(f"{path}: {error.strerror}: `euterpe batch submit` writes it") from None
    except (ValueError, KeyError, TypeError):
        raise JobsFileError(f"{path}: is not a jobs file that `euterpe batch submit` wrote") from None
