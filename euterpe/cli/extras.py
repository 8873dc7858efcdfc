"""Packages that not everybody has installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from euterpe.domain.errors import EuterpeError


class ExtraMissing(EuterpeError):
    code = "extra_missing"


@contextmanager
def importing(extra: str) -> Iterator[None]:
    """Imports that need `euterpe[extra]`: where it is not there, a sentence says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ExtraMissing(
            f"this needs the package {error.name}; install it with `pip install 'euterpe[{extra}]'`"
        ) from error
