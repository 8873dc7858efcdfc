"""Find and fetch a manifest's files: a path, a folder, a glob pattern or an s3:// URL, and their formats.

Local files are read no further than their first bytes; files in S3 are downloaded to temporary files.
"""

import glob
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

import obstore
from obstore.exceptions import (
    BaseError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from euterpe.batch.errors import ManifestError

Kind = Literal["csv", "jsonl", "parquet"]

KINDS: dict[str, Kind] = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
_ENDINGS = ", ".join(KINDS)
_GLOB = re.compile(r"[*?\[]")
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class File:
    name: str  # shown in messages
    path: str  # the path to open
    kind: Kind

    def place(self, line: int) -> str:
        """Return the position of a row, for messages: `name:line`, for Parquet `name row line`."""
        return f"{self.name} row {line}" if self.kind == "parquet" else f"{self.name}:{line}"


@contextmanager
def files_of(manifest: str) -> Iterator[Sequence[File]]:
    """Yield the files of a path, a folder, a pattern or an s3:// URL, in the order of their names."""
    if manifest.startswith("s3://"):
        with fetched(manifest) as files:
            yield files
    else:
        yield [_local(path) for path in _paths(manifest)]


def kind_of(name: str) -> Kind:
    """Return the format that the file extension stands for. Raise `ManifestError` if it is unknown."""
    kind = KINDS.get(Path(name).suffix.lower())
    if kind is None:
        raise ManifestError(f"{name}: its name must end with one of {_ENDINGS}")
    return kind


def wanted(names: Sequence[str], manifest: str) -> list[str]:
    """Return the names that can be part of a manifest, sorted; `_SUCCESS` and hidden files are Spark's own.

    Raise `ManifestError` if there are none."""
    found = sorted(name for name in names if Path(name).suffix.lower() in KINDS and _is_shown(name))
    if not found:
        raise ManifestError(f"{manifest}: there is no file in it that ends with one of {_ENDINGS}")
    return found


def is_pattern(manifest: str) -> bool:
    return _GLOB.search(manifest) is not None


def _is_shown(name: str) -> bool:
    return not Path(name).name.startswith((".", "_"))


def _paths(manifest: str) -> list[str]:
    path = Path(manifest)
    if path.is_dir():
        found = [str(entry) for entry in path.iterdir()]
    elif is_pattern(manifest) and not path.exists():
        found = glob.glob(manifest)  # noqa: PTH207  Path.glob refuses absolute patterns
    else:
        return [manifest]
    return wanted([name for name in found if Path(name).is_file()], manifest)


def _local(name: str) -> File:
    file = File(name, str(Path(name).absolute()), kind_of(name))
    check_text(file)
    return file


def check_text(file: File) -> None:
    """Raise `ManifestError` if the file cannot be opened, is UTF-16 or is a JSON list rather than lines."""
    try:
        with Path(file.path).open("rb") as stream:
            start = stream.read(1024)
    except OSError as error:
        raise ManifestError(f"{file.name}: {error.strerror}") from None
    if file.kind == "parquet":
        return
    if start.startswith(_UTF_16) or b"\0" in start:
        raise ManifestError(f"{file.name}: is not UTF-8, it looks like UTF-16: save it as UTF-8")
    if file.kind == "jsonl" and start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"[":
        raise ManifestError(f"{file.name}: is one JSON list: write each of its objects on a line of its own")


if TYPE_CHECKING:
    from obstore.store import RetryConfig

MAX_BYTES = 1024**3
_RETRIES: "RetryConfig" = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}


@contextmanager
def fetched(manifest: str, max_bytes: int = MAX_BYTES) -> Iterator[Sequence[File]]:
    """Download the files, at most `max_bytes` together; they are deleted at the end of the `with` block."""
    bucket, _, key = manifest.removeprefix("s3://").partition("/")
    if not bucket or not key:
        raise ManifestError(f"{manifest}: must be s3://BUCKET/KEY; a folder ends with /")
    with ExitStack() as kept:
        with _explained(manifest):
            store = S3Store(bucket, retry_config=_RETRIES)
            files = []
            for name in _keys(store, unquote(key), manifest):
                file, size = _fetch(store, f"s3://{bucket}/{name}", name, max_bytes, kept)
                max_bytes -= size
                files.append(file)
        yield files


def _keys(store: S3Store, key: str, manifest: str) -> list[str]:
    if not (key.endswith("/") or is_pattern(key)):
        return [key]
    folder = key[: key.rfind("/") + 1]
    listed = obstore.list_with_delimiter(store, folder or None)["objects"]
    names = [entry["path"] for entry in listed]
    return wanted([name for name in names if key.endswith("/") or fnmatchcase(name, key)], manifest)


def _fetch(store: S3Store, url: str, key: str, max_bytes: int, kept: ExitStack) -> tuple[File, int]:
    kind = kind_of(url)
    # A manifest may hold credentials, so it goes to a file without a name, which the kernel deletes however
    # this process ends. Spark runs as the same user and opens it through /proc/PID/fd of this process.
    stream = kept.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  the ExitStack closes it
    size = 0
    for chunk in obstore.get(store, key).stream():
        size += len(chunk)
        if size > max_bytes:
            raise ManifestError(f"{url}: is too large, more than {MAX_BYTES >> 20} MiB: split it")
        stream.write(chunk)
    stream.flush()
    file = File(url, f"/proc/{os.getpid()}/fd/{stream.fileno()}", kind)
    check_text(file)
    return file, size


@contextmanager
def _explained(manifest: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:  # obstore raises this one, not NotFoundError
        problem = "there is no such object or bucket"
    except (PermissionDeniedError, UnauthenticatedError):
        problem = "the credentials of your environment may not read it"
    except (BaseError, OSError) as error:
        problem = f"cannot be fetched ({type(error).__name__}): check AWS_REGION and AWS_ENDPOINT_URL"
    else:
        return
    raise ManifestError(f"{manifest}: {problem}")
