"""Checks for outputs that would overwrite the source of their job, or a watermark of their job."""

from collections.abc import Iterable
from urllib.parse import quote, unquote, urlsplit

from euterpe.domain.credentials import AzCredentials, Credentials, credentials_for
from euterpe.domain.locations import scheme_of, split_query
from euterpe.domain.outputs import single_file
from euterpe.domain.spec import JobSpec, resolve_outputs
from euterpe.domain.watermark_urls import watermark_urls

_PORTS = {"http": 80, "https": 443}
ADVICE = "this job would write an output over its own source or watermark: choose another prefix or name"


def replaces_its_source(spec: JobSpec) -> bool:
    """Return whether the spec alone shows that an output overwrites the source or a watermark.

    Outputs with many files are not checked here, because the names of their files are known only from the
    plan.
    """
    names = [file for output in resolve_outputs(spec) if (file := single_file(output)) is not None]
    return find_overwritten_source(spec, [*names, *(spec.output.urls or {})]) is not None


def find_overwritten_source(spec: JobSpec, names: Iterable[str]) -> str | None:
    """Return the first name whose file would overwrite the source or a watermark, or None."""
    # If a watermark and the source are in stores of different types, the watermark is read without the
    # source's credentials. So such a watermark is compared with the outputs even if the source and the
    # outputs have different endpoints or accounts.
    is_one_store, sources = _is_one_store(spec.credentials), (spec.source.url, *watermark_urls(spec).values())
    read = {_place(url) for url in sources if is_one_store or scheme_of(url) != spec.source.scheme}
    for name in names:
        urls, prefix = spec.output.urls or {}, spec.output.url
        url = urls.get(name) if prefix is None else prefix + quote(name)
        if url is not None and _place(url) in read:
            return name
    return None


def _place(url: str) -> tuple[str, str, int | None, str]:
    """Return the parts of a URL in normal form, which is the same for all URLs of one object."""
    parts = urlsplit(split_query(url)[0])
    port = parts.port or _PORTS.get(parts.scheme) if parts.scheme in _PORTS else None
    host = (parts.hostname or "") if parts.scheme in _PORTS else parts.netloc
    return parts.scheme, host, port, unquote(parts.path)


def _is_one_store(credentials: Credentials | None) -> bool:
    """Return False if source and output have different endpoints or accounts.

    Two endpoints, or two accounts, can each have a bucket of the same name.
    """
    source, output = credentials_for(credentials, "source"), credentials_for(credentials, "output")
    if source is None or output is None:
        return True
    accounts = {given.account_name for given in (source, output) if isinstance(given, AzCredentials)}
    return source.endpoint == output.endpoint and len(accounts) <= 1
