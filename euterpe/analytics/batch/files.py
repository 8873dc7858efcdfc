"""Which files a manifest is, and of which kind. Nothing here is read further than its first bytes."""

import glob
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from euterpe.analytics.batch.errors import ManifestError

Kind = Literal["csv", "jsonl", "parquet"]

KINDS: dict[str, Kind] = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
_ENDINGS = ", ".join(KINDS)
_MAGIC = re.compile(r"[*?\[]")
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class File:
    name: str  # as people know it
    path: str  # where it is opened
    kind: Kind

    def place(self, line: int) -> str:
        return f"{self.name} row {line}" if self.kind == "parquet" else f"{self.name}:{line}"


@contextmanager
def files_of(manifest: str) -> Iterator[Sequence[File]]:
    """The files of a path, a folder, a pattern or an s3:// URL, in the order of their names."""
    if manifest.startswith("s3://"):
        from euterpe.analytics.batch.fetch import fetched  # noqa: PLC0415  few manifests are there

        with fetched(manifest) as files:
            yield files
    else:
        yield [_local(path) for path in _paths(manifest)]


def kind_of(name: str) -> Kind:
    kind = KINDS.get(Path(name).suffix.lower())
    if kind is None:
        raise ManifestError(f"{name}: what it is must be seen from its ending, one of {_ENDINGS}")
    return kind


def wanted(names: Sequence[str], manifest: str) -> list[str]:
    """Of a folder, those that may be a part of a manifest: Spark adds `_SUCCESS` and hidden files."""
    found = sorted(name for name in names if Path(name).suffix.lower() in KINDS and _is_shown(name))
    if not found:
        raise ManifestError(f"{manifest}: there is no file in it that ends with one of {_ENDINGS}")
    return found


def is_pattern(manifest: str) -> bool:
    return _MAGIC.search(manifest) is not None


def _is_shown(name: str) -> bool:
    return not Path(name).name.startswith((".", "_"))


def _paths(manifest: str) -> list[str]:
    path = Path(manifest)
    if path.is_dir():
        found = [str(entry) for entry in path.iterdir()]
    elif is_pattern(manifest) and not path.exists():
        found = glob.glob(manifest)  # noqa: PTH207  a Path has no pattern with a root in it
    else:
        return [manifest]
    return wanted([name for name in found if Path(name).is_file()], manifest)


def _local(name: str) -> File:
    file = File(name, str(Path(name).absolute()), kind_of(name))
    check_text(file)
    return file


def check_text(file: File) -> None:
    """A ManifestError if it cannot be opened, or is text of which Spark would make nonsense."""
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
