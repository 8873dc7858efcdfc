"""The URLs that a job opens with the credentials of its storage."""

from collections.abc import Iterator
from typing import NamedTuple

from euterpe.domain.credentials import Side
from euterpe.domain.spec import JobSpec, resolve_outputs
from euterpe.domain.watermark_urls import watermark_urls


class JobUrl(NamedTuple):
    """A URL of a job, its path in the spec, and the side (source or output) whose credentials it uses."""

    loc: tuple[str | int, ...]
    side: Side
    url: str


def job_urls(spec: JobSpec) -> Iterator[JobUrl]:
    """Yield each URL that the job opens, but not the signed URLs of its outputs."""
    yield JobUrl(("source", "url"), "source", spec.source.url)
    if spec.output.url is not None:
        yield JobUrl(("output", "url"), "output", spec.output.url)
    places = {output.name: place for place, output in enumerate(resolve_outputs(spec))}
    for name, url in watermark_urls(spec).items():
        loc = ("profile",) if spec.profile else ("outputs", places[name], "watermark", "source", "url")
        yield JobUrl(loc, "source", url)
