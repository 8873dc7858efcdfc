"""New credentials for a job that is there already (contract §7): the whole secret part of its spec anew."""

from typing import Annotated, Any

from pydantic import Field, ValidationError

from euterpe.domain.canonical import Json, split_secrets
from euterpe.domain.credentials import Credentials
from euterpe.domain.errors import FieldError, InvalidSpec
from euterpe.domain.field_errors import field_errors
from euterpe.domain.locations import SignedUrl, split_query
from euterpe.domain.model import StrictModel
from euterpe.domain.spec import Uploads, parse_spec


class Replacement(StrictModel):
    """What a requester brings: keys to object storage, or the same signed URLs with new signatures."""

    credentials: Credentials | None = None
    source_url: Annotated[SignedUrl | None, Field(repr=False)] = None
    output_urls: Annotated[Uploads | None, Field(repr=False)] = None


def new_secret(public: Json, document: object) -> bytes:
    """What to seal for the job with this public spec, or InvalidSpec with every error in the document."""
    try:
        given = Replacement.model_validate(document)
    except ValidationError as invalid:
        errors = field_errors(invalid, document)
    else:
        errors = tuple(_misfits(public, given))
    if errors:
        raise InvalidSpec(errors)
    spec = parse_spec({**public, **_renewed(public, given)})
    _, secret = split_secrets(spec)
    if secret is None:
        raise InvalidSpec((FieldError((), "must bring credentials, or signed URLs with a query"),))
    return secret


def _misfits(public: Json, given: Replacement) -> list[FieldError]:
    """A signature may be new; what it is for may not."""
    found = []
    if given.source_url is not None and split_query(given.source_url)[0] != public["source"]["url"]:
        found.append(FieldError(("source_url",), "must be the job's source with another query"))
    urls = public["output"]["urls"] or {}
    bare = {name: split_query(url)[0] for name, url in (given.output_urls or {}).items()}
    if given.output_urls is not None and bare != urls:
        found.append(FieldError(("output_urls",), "must be the job's output.urls with other queries"))
    return found


def _renewed(public: Json, given: Replacement) -> dict[str, Any]:
    source, output = dict(public["source"]), dict(public["output"])
    if given.source_url is not None:
        source["url"] = given.source_url
    if given.output_urls is not None:
        output["urls"] = given.output_urls
    return {"source": source, "output": output, "credentials": given.credentials}
