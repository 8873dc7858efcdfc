"""The operator's storage policy: the allowed folders for `file://`, and the allowed endpoints.

The endpoints of the clouds are always allowed. The API applies this policy at POST, so that a bad job
is refused at once and does not fail later on a worker. For signed URLs, the egress policy checks the
addresses instead.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from euterpe.domain.credentials import CredentialPair, Side, StorageCredentials
from euterpe.domain.errors import FieldError
from euterpe.domain.job_urls import job_urls
from euterpe.domain.locations import scheme_of
from euterpe.domain.own_source import ADVICE as OWN_SOURCE_ADVICE
from euterpe.domain.own_source import replaces_its_source
from euterpe.domain.spec import JobSpec

_CLOUDS = re.compile(
    r"https://(?:s3(?:\.dualstack)?\.[a-z0-9-]+\.amazonaws\.com(?:\.cn)?|s3\.amazonaws\.com"
    r"|storage\.googleapis\.com|[a-z0-9]{3,24}\.blob\.core\.windows\.net):443"
)
_PORTS = {"http": 80, "https": 443}

ENDPOINT_ADVICE = "the operator must allow this endpoint by EUTERPE_STORAGE_ENDPOINTS"
NAME_ADVICE = "must name something below the folder that the operator allows, and not that folder itself"
AZURE_ADVICE = "must not be az, because the source is not, and its credentials are used for watermarks, too"
ROOT_ADVICE = "the operator must allow a folder above it by EUTERPE_STORAGE_ROOTS"


def origin(url: str) -> str:
    """Return scheme, host and port in normal form.

    Raise ValueError if the scheme or the host is not valid.
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc:
        raise ValueError(f"{url!r} must be an origin like https://minio.example:9000")
    return f"{parts.scheme}://{parts.hostname}:{parts.port or _PORTS[parts.scheme]}"


def path_of(url: str) -> Path:
    """Return the path of a file:// URL, with its percent escapes decoded."""
    return Path(unquote(url.removeprefix("file://")))


@dataclass(frozen=True)
class StoragePolicy:
    """The allowed `roots` and `endpoints`.

    Without `roots`, file:// is refused. `endpoints` are origins that are allowed in addition to the
    endpoints of the clouds.
    """

    roots: tuple[Path, ...] = ()
    endpoints: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "endpoints", tuple(map(origin, self.endpoints)))
        for root in self.roots:
            if not root.is_absolute():
                raise ValueError(f"{str(root)!r} must be an absolute path")

    def root_of(self, path: Path) -> Path | None:
        """Return the root above `path`.

        Compare names only, because links are checked when the file is opened.
        """
        return next((root for root in self.roots if path.is_relative_to(root)), None)

    def allows(self, endpoint: str | None) -> bool:
        if endpoint is None:
            return True
        return origin(endpoint) in self.endpoints or self.is_a_cloud(endpoint)

    def is_a_cloud(self, endpoint: str | None) -> bool:
        """Return whether this is a cloud's own endpoint, and not another server with the same protocol."""
        return endpoint is None or _CLOUDS.fullmatch(origin(endpoint)) is not None

    def problems(self, spec: JobSpec) -> tuple[FieldError, ...]:
        """Return an error for each field of a job that this policy refuses."""
        return tuple(self._problems(spec))

    def _problems(self, spec: JobSpec) -> Iterator[FieldError]:
        for loc, _, url in job_urls(spec):
            if _lacks_credentials(loc, url, spec):
                yield FieldError(loc, AZURE_ADVICE)
            if scheme_of(url) != "file":
                continue
            path = path_of(url)
            if self.root_of(path) is None:
                yield FieldError(loc, ROOT_ADVICE)
            elif path in self.roots:
                yield FieldError(loc, NAME_ADVICE)
        if replaces_its_source(spec):
            yield FieldError(("output", "urls" if spec.output.url is None else "url"), OWN_SOURCE_ADVICE)
        for loc, _, given in given_credentials(spec):
            if not self.allows(given.endpoint):
                yield FieldError((*loc, "endpoint"), ENDPOINT_ADVICE)


def _lacks_credentials(loc: tuple[str | int, ...], url: str, spec: JobSpec) -> bool:
    """Return whether this is a watermark in Azure, and the source is not in Azure.

    A watermark uses the credentials of the source, if both are in the same type of store. Azure always needs
    credentials, because only they name the storage account. Public objects of S3 and Google are read without
    credentials.
    """
    is_watermark = loc[0] not in ("source", "output")
    return is_watermark and scheme_of(url) == "az" and spec.source.scheme != "az"


class GivenCredentials(NamedTuple):
    """Credentials of a job, their place in the document, and the side (source or output) that uses them."""

    loc: tuple[str, ...]
    side: Side
    credentials: StorageCredentials


def given_credentials(spec: JobSpec) -> Iterator[GivenCredentials]:
    """Yield each of the job's credentials."""
    if isinstance(spec.credentials, CredentialPair):
        sides: tuple[Side, Side] = ("source", "output")
        for side in sides:
            if given := getattr(spec.credentials, side):
                yield GivenCredentials(("credentials", side), side, given)
    elif spec.credentials is not None:
        yield GivenCredentials(("credentials",), "source", spec.credentials)
