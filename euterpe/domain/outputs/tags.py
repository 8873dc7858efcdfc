"""The tags of a file, which players show as its title, artist and so on."""

from typing import Annotated, Literal

from pydantic import Tag

from euterpe.domain.model import OBJECT, StrictModel, by_form
from euterpe.domain.text import printable

_Text = Annotated[str, printable(200)]


class Tags(StrictModel):
    """The tags of a file. The file gets only these tags."""

    title: _Text | None = None
    """The title."""
    artist: _Text | None = None
    """The artist or the author."""
    album: _Text | None = None
    """The album or the series."""
    genre: _Text | None = None
    """The genre."""
    date: _Text | None = None
    """The date or the year."""
    comment: _Text | None = None
    """A comment."""
    copyright: _Text | None = None
    """The holder of the rights."""


Metadata = Annotated[
    Annotated[Literal["strip"], Tag("strip")]
    | Annotated[Literal["keep"], Tag("keep")]
    | Annotated[Tags, OBJECT],
    by_form("'strip', 'keep' or an object", "strip", "keep"),
]
