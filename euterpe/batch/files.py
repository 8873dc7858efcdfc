"""Find the files of a manifest and their formats. A manifest is a path, folder, glob pattern or s3:// URL.

Only the first bytes of local files are read.
"""

import glob
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from euterpe.analytics.errors import AnalyticsError

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


class ManifestError(AnalyticsError):
    """Raised when the manifest cannot be read. The message begins with the file's name."""

    code = "manifest"


@dataclass(frozen=True)
class File:
    # The name that messages show.
    name: str
    path: str  # the path to open
    kind: Kind

    def place(self, line: int) -> str:
        """Return the position of a row, for messages: `name:line`, or `name row line` for Parquet."""
        return f"{self.name} row {line}" if self.kind == "parquet" else f"{self.name}:{line}"


@contextmanager
def files_of(manifest: str) -> Iterator[Sequence[File]]:
    """Yield the files of a path, a folder, a pattern or an s3:// URL, in the order of their names."""
    if manifest.startswith("s3://"):
        from euterpe.batch.fetch import fetched  # noqa: PLC0415  few manifests are in S3

        with fetched(manifest) as files:
            yield files
    else:
        yield [_local(path) for path in _paths(manifest)]


def kind_of(name: str) -> Kind:
    """Return the format by the file extension. Raise `ManifestError` if the extension is unknown."""
    kind = KINDS.get(Path(name).suffix.lower())
    if kind is None:
        raise ManifestError(f"{name}: its name must end with one of {_ENDINGS}")
    return kind


def manifest_names(names: Sequence[str], manifest: str) -> list[str]:
    """Return the names that can be part of a manifest, sorted; leave out Spark's `_SUCCESS` and hidden files.

    Raise `ManifestError` if no name is left."""
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
    return manifest_names([name for name in found if Path(name).is_file()], manifest)


def _local(name: str) -> File:
    file = File(name, str(Path(name).absolute()), kind_of(name))
    check_text(file)
    return file


def check_text(file: File) -> None:
    """Raise `ManifestError` if the file cannot be opened.

    Also raise it for a file in UTF-16, and for a JSON list instead of JSON lines.
    """
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
