"""Declare command groups and commands, so that all of them look and behave the same."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

import typer

from euterpe.domain.errors import EuterpeError
from euterpe.runtime.installation import install_hint
from euterpe.settings import load
from euterpe.store.store import Store
from euterpe.wiring.database import LazyKeyProvider, open_store


class ExtraMissing(EuterpeError):
    code = "extra_missing"


@contextmanager
def importing(extra: str) -> Iterator[None]:
    """Turn a failed import of a package of an extra into an error that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ExtraMissing(f"this needs the package {error.name}; {install_hint(extra)}") from error


_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def check_id(value: str | None) -> str | None:
    """Return the value, or raise `BadParameter` if it is no id: a list filtered by a typo looks valid."""
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
        pretty_exceptions_enable=False,  # pretty exceptions print local variables, which may hold keys
    )


def command(app: typer.Typer, name: str, *, example: str) -> Callable[[_Function], _Function]:
    return app.command(name, epilog=_epilog(example))


def _epilog(example: str) -> str:
    return f"Example: {example}"


@contextmanager
def opened() -> Iterator[Store]:
    """Yield the store that the settings describe. Keys are loaded only if the command needs one."""
    settings = load()
    with open_store(settings, LazyKeyProvider(settings)) as store:
        yield store
