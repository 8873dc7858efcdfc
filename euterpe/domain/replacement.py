"""Replacement credentials for an existing job (contract §7).

These credentials replace the secret part of the job's spec. A worker can read the present secrets, so it
keeps the secrets that the document does not replace. The API cannot read the present secrets, so it requires
a document that replaces all of them.
"""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field, ValidationError

from euterpe.domain.canonical import Json, split_secrets
from euterpe.domain.credentials import CredentialPair, Credentials, Side, credentials_for
from euterpe.domain.errors import FieldError, InvalidSpec
from euterpe.domain.field_errors import field_errors
from euterpe.domain.locations import OBJECT_STORES, SignedUrl, scheme_of, split_query, without_query
from euterpe.domain.model import StrictModel
from euterpe.domain.spec import JobSpec, Uploads, parse_stored_spec
from euterpe.domain.text import Name
from euterpe.domain.watermark_urls import watermark_urls, watermarks_in, with_watermark_urls

WatermarkUrls = Annotated[dict[Name, SignedUrl], Field(min_length=1)]


class Replacement(StrictModel):
    """New secrets for a job: credentials for object storage, new signatures for its signed URLs, or both.

    Give `source_url`, `output_urls` and `watermark_urls` if the job's URLs have queries. Give `credentials`
    if the job uses object storage. If the credentials are a pair (`source`, `output`), give each side whose
    URL is in object storage. If this storage needs no credentials, give null.
    """

    credentials: Credentials | None = None
    """New credentials, of the same type as those of the job."""
    source_url: Annotated[SignedUrl | None, Field(repr=False)] = None
    """The source's signed URL with a new query."""
    output_urls: Annotated[Uploads | None, Field(repr=False)] = None
    """The signed PUT URLs with new queries. The keys are the paths of the files."""

    watermark_urls: Annotated[WatermarkUrls | None, Field(repr=False)] = None
    """The signed URLs of the watermarks with new queries. The keys are the names of the outputs."""

    @property
    def is_empty(self) -> bool:
        urls = (self.source_url, self.output_urls, self.watermark_urls)
        return self.credentials is None and all(one is None for one in urls)


def new_secret(public: Json, document: object, known: JobSpec | None = None) -> bytes:
    """Return the bytes to seal for the job. Raise `InvalidSpec` with every error in the document.

    `known` is the job's present spec with its secrets. A part that the document leaves out is taken from
    `known`. Without `known`, the document must be complete.
    """
    try:
        given = Replacement.model_validate(document)
    except ValidationError as invalid:
        errors = field_errors(invalid, document)
    else:
        errors = tuple(_problems(public, given, is_whole=known is None))
    if errors:
        raise InvalidSpec(errors)
    if known is not None:
        given = _completed(public, given, known)
    _, secret = split_secrets(parse_stored_spec({**public, **_renewed(public, given)}))
    if secret is None:
        raise InvalidSpec((_NOTHING,))
    return secret


_NOTHING = FieldError((), "must bring credentials, or signed URLs with a query")
_SIDES: tuple[Side, Side] = ("source", "output")


def _problems(public: Json, given: Replacement, *, is_whole: bool) -> Iterator[FieldError]:
    if given.is_empty:
        yield _NOTHING
        return
    yield from _mismatched_urls(public, given)
    if is_whole:
        yield from _missing_parts(public, given)


def _mismatched_urls(public: Json, given: Replacement) -> Iterator[FieldError]:
    """Yield an error for each field whose URLs differ from the job's URLs in more than the query.

    The query has the signature, so nothing else needs to change.
    """
    source, urls = public["source"]["url"], public["output"]["urls"] or {}
    if given.source_url is not None and without_query(given.source_url) != without_query(source):
        yield FieldError(("source_url",), "must be the job's source with another query")
    if given.output_urls is not None and _without_queries(given.output_urls) != _without_queries(urls):
        yield FieldError(("output_urls",), "must be the job's output.urls with other queries")
    marks = _signed_watermarks(public)
    if given.watermark_urls is not None and _without_queries(given.watermark_urls) != _without_queries(marks):
        yield FieldError(("watermark_urls",), "must be the job's https:// watermarks with other queries")


def _signed_watermarks(public: Json) -> dict[str, str]:
    """Return the URLs of the watermarks that can be presigned (https), keyed by the name of the output."""
    marks = watermarks_in(public.get("outputs"))
    return {name: url for name, url in marks.items() if scheme_of(url) == "https"}


def _without_queries(urls: dict[str, str]) -> dict[str, str]:
    return {name: without_query(url) for name, url in urls.items()}


def _missing_parts(public: Json, given: Replacement) -> Iterator[FieldError]:
    """Yield an error for each part that the document leaves out although the job may need it."""
    source, urls = public["source"]["url"], public["output"]["urls"] or {}
    if given.source_url is None and split_query(source)[1]:
        yield FieldError(("source_url",), "is required: the job's source is a signed URL")
    if given.output_urls is None and any(split_query(url)[1] for url in urls.values()):
        yield FieldError(("output_urls",), "is required: the job's output.urls are signed")
    signed = any(split_query(url)[1] for url in _signed_watermarks(public).values())
    if given.watermark_urls is None and signed:
        yield FieldError(("watermark_urls",), "is required: the job's watermarks are signed URLs")
    stores = _stores(public)
    if stores and "credentials" not in given.model_fields_set:
        yield FieldError(("credentials",), _required(" and ".join(stores)))
    if isinstance(given.credentials, CredentialPair):
        for side in stores:
            if side not in given.credentials.model_fields_set:
                yield FieldError(("credentials", side), _required(side))


def _required(sides: str) -> str:
    return f"is required: the job's {sides} is object storage (give null if that needs no credentials)"


def _stores(public: Json) -> list[Side]:
    """Return the sides (source, output) whose URL is in object storage."""
    return [side for side in _SIDES if scheme_of(public[side]["url"] or "") in OBJECT_STORES]


def _completed(public: Json, given: Replacement, known: JobSpec) -> Replacement:
    credentials = given.credentials or known.credentials
    if isinstance(credentials, CredentialPair):
        halves: dict[str, Any] = {
            side: credentials_for(credentials, side) or credentials_for(known.credentials, side)
            for side in _stores(public)
        }
        credentials = credentials.model_copy(update=halves)
    return given.model_copy(
        update={
            "credentials": credentials,
            "source_url": given.source_url or known.source.url,
            "output_urls": given.output_urls or known.output.urls,
            "watermark_urls": given.watermark_urls or watermark_urls(known),
        }
    )


def _renewed(public: Json, given: Replacement) -> dict[str, Any]:
    source, output = dict(public["source"]), dict(public["output"])
    if given.source_url is not None:
        source["url"] = given.source_url
    if given.output_urls is not None:
        output["urls"] = given.output_urls
    outputs = public.get("outputs")
    if outputs is not None and given.watermark_urls is not None:
        outputs = with_watermark_urls(outputs, given.watermark_urls)
    renewed = {"source": source, "output": output, "outputs": outputs}
    return {**renewed, "credentials": given.credentials}
