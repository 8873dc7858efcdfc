"""The URLs of a job's watermarks. The query of such a URL is a secret, like the query of the source URL."""

from collections.abc import Iterable, Mapping
from typing import Any

from euterpe.domain.locations import split_query, without_query
from euterpe.domain.outputs import PictureOutput
from euterpe.domain.spec import JobSpec, resolve_outputs

Json = dict[str, Any]


def watermark_urls(spec: JobSpec) -> dict[str, str]:
    """Return the URLs of the watermarks, by the name of the output."""
    return {
        output.name: output.watermark.source.url
        for output in resolve_outputs(spec)
        if isinstance(output, PictureOutput) and output.watermark is not None
    }


def watermark_queries(spec: JobSpec) -> dict[str, str]:
    """Return the queries of the watermark URLs, by the name of the output. Leave out URLs without a query."""
    queries = {name: split_query(url)[1] for name, url in watermark_urls(spec).items()}
    return {name: query for name, query in queries.items() if query}


def watermarks_in(outputs: Iterable[Json] | None) -> dict[str, str]:
    """Return the URLs of the watermarks of outputs in JSON form, by the name of the output."""
    return {
        output["name"]: output["watermark"]["source"]["url"]
        for output in outputs or ()
        if output.get("watermark")
    }


def without_watermark_queries(outputs: Iterable[Json], mark: str = "") -> list[Json]:
    """Return the outputs with the query of each watermark URL replaced by `mark`."""
    return [
        _with_url(output, without_query(url) + (mark if split_query(url)[1] else ""))
        if (url := watermarks_in([output]).get(output["name"]))
        else output
        for output in outputs
    ]


def with_watermark_urls(outputs: Iterable[Json], urls: Mapping[str, str]) -> list[Json]:
    """Return the outputs with these watermark URLs. `urls` is keyed by the name of the output."""
    return [
        _with_url(output, urls[output["name"]])
        if output.get("watermark") and output["name"] in urls
        else output
        for output in outputs
    ]


def with_watermark_queries(outputs: Iterable[Json], queries: Mapping[str, str]) -> list[Json]:
    """Return the outputs with these queries in their watermark URLs.

    `queries` is keyed by the name of the output. This function reverses `without_watermark_queries`.
    """
    outputs = list(outputs)
    urls = {name: without_query(url) + queries.get(name, "") for name, url in watermarks_in(outputs).items()}
    return with_watermark_urls(outputs, urls)


def _with_url(output: Json, url: str) -> Json:
    watermark = output["watermark"]
    return {**output, "watermark": {**watermark, "source": {**watermark["source"], "url": url}}}
