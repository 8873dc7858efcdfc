"""Options that name a file or a folder of this machine."""

import re
from pathlib import Path

import typer

# With one slash too: that is what a URL looks like once a shell variable or `Path` has normalised it.
# At least two letters, so that a drive of Windows is no scheme.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def is_url(text: str) -> bool:
    """Return whether the text has the scheme of a URL, `file://` included."""
    return _SCHEME.match(text) is not None


def local_path(text: str | Path) -> Path:
    """Return the path, or raise `BadParameter` for a URL.

    `Path("s3://media/lake")` is the relative folder `s3:/media/lake`: without this check a command would
    make that folder and report success.
    """
    if is_url(str(text)):
        raise typer.BadParameter(f"{text} is a URL; name a path of this machine, without a scheme")
    return Path(text)
