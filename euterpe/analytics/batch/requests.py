"""What a row asks of the service, and the key under which it is asked once."""

from collections.abc import Container, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

from euterpe.analytics.batch.columns import Document, with_defaults
from euterpe.analytics.batch.errors import ManifestError
from euterpe.analytics.batch.pieces import Piece
from euterpe.analytics.batch.rows import Row, rows
from euterpe.domain.canonical import request_hash, split_secrets
from euterpe.domain.errors import InvalidSpec
from euterpe.domain.spec import JobSpec, parse_spec


class Request(NamedTuple):
    file: int
    line: int
    document: Document
    key: str


def read_request(row: Row, defaults: Document) -> tuple[Document, JobSpec]:
    """InvalidSpec has every error of the row."""
    if row.flaws:
        raise InvalidSpec(row.flaws)
    document = with_defaults(row.asked, defaults)
    return document, parse_spec(document)


def key_of(spec: JobSpec) -> str:
    """From what the request means: for the API, too, it is the same with fresh credentials or signatures."""
    return f"batch-{request_hash(spec)}"


def secret_of(spec: JobSpec, salt: bytes) -> str:
    """Tells two secret parts apart, and tells nothing else of them."""
    _, secret = split_secrets(spec)
    return blake2b(secret or b"", key=salt, digest_size=16).hexdigest()


def requests(
    pieces: Sequence[Piece], defaults: Document, left_out: Container[tuple[int, int]]
) -> Iterator[Request]:
    """The rows that are to be submitted, read once more: no credentials had to go through Spark and back."""
    for piece in pieces:
        for row in rows(piece):
            if (piece.file, row.line) not in left_out:
                try:
                    document, spec = read_request(row, defaults)
                except InvalidSpec:
                    raise ManifestError("the manifest has changed since it was checked") from None
                yield Request(piece.file, row.line, document, key_of(spec))
