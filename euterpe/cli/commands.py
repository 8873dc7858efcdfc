"""Declare command groups and commands, and parse options, so that all commands look and behave the same."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from pydantic import TypeAdapter, ValidationError

from euterpe.domain.errors import EuterpeError
from euterpe.domain.model import Instant
from euterpe.domain.units import parse_duration, parse_size
from euterpe.runtime.installation import install_hint
from euterpe.settings import load

if TYPE_CHECKING:
    from euterpe.store.store import Store


class ExtraMissing(EuterpeError):
    code = "extra_missing"


@contextmanager
def importing(extra: str, *, unless: str | None = None) -> Iterator[None]:
    """Turn a failed import of a package into an error that tells the user which extra to install.

    The error also names `unless`, a condition under which the package is not needed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        condition = "" if unless is None else f"unless {unless}, "
        raise ExtraMissing(
            f"{condition}this needs the package {error.name}; {install_hint(extra)}"
        ) from error


_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def check_id(value: str | None) -> str | None:
    """Return the value, or raise `BadParameter` if it is not an id.

    Without this check, a typo would show an empty list, which looks valid.
    """
    if value is not None and not _ID.fullmatch(value):
        raise typer.BadParameter("is not an id")
    return value


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def group(help_text: str, *, example: str) -> typer.Typer:
    return typer.Typer(
        help=help_text,
        epilog=_epilog(example),
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,  # pretty exceptions print local variables, which may contain keys
    )


def command(app: typer.Typer, name: str, *, example: str) -> Callable[[_Function], _Function]:
    return app.command(name, epilog=_epilog(example))


def _epilog(example: str) -> str:
    return f"Example: {example}"


@contextmanager
def opened() -> "Iterator[Store]":
    """Yield the store that the settings describe. The keys are loaded only if the command uses them."""
    from euterpe.wiring.database import LazyKeyProvider, open_store

    settings = load()
    with open_store(settings, LazyKeyProvider(settings)) as store:
        yield store


# -- values of options

_LONGEST_MS = 36_500 * 86_400_000
_INSTANT = TypeAdapter[int](Instant)


def duration_ms(text: str, option: str) -> int:
    length = parse_duration(text)
    if length is None or length > _LONGEST_MS:
        raise typer.BadParameter(
            "must be a number and a unit, like 90s, 15m, 12h or 30d, and at most 36500d", param_hint=option
        )
    return length


def instant_ms(text: str, option: str, *, ahead: bool = False) -> int:
    """Parse an instant, given as a timestamp or as a duration before now.

    With `ahead`, the duration is counted from now into the future.
    """
    if parse_duration(text) is not None:
        length = duration_ms(text, option)
        return int(time.time() * 1000) + (length if ahead else -length)
    try:
        return _INSTANT.validate_python(text)
    except ValidationError:
        raise typer.BadParameter(
            f"must be a time like 2030-01-31T12:00:00Z, or how long {'from now' if ahead else 'ago'}, "
            "like 90s, 15m, 12h or 30d",
            param_hint=option,
        ) from None


def size_bytes(text: str, option: str) -> int:
    size = parse_size(text)
    if size is None:
        raise typer.BadParameter("must be a size like 1500000, 500MB or 2.5GiB", param_hint=option)
    return size


# One slash after the colon is enough, because a shell variable or `Path` may have changed `//` to `/`. A
# scheme must have at least two letters here, because a single letter is a Windows drive.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def is_url(text: str) -> bool:
    """Return whether the text begins with the scheme of a URL, such as `s3://` or `file://`."""
    return _SCHEME.match(text) is not None


def local_path(text: str | Path) -> Path:
    """Return the path, or raise `BadParameter` for a URL.

    `Path("s3://media/lake")` is the relative folder `s3:/media/lake`. Without this check, a command would
    create that folder and report success.
    """
    if is_url(str(text)):
        raise typer.BadParameter(f"{text} is a URL; name a path of this machine, without a scheme")
    return Path(text)
