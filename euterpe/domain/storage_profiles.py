"""Storage profiles: credentials that the operator keeps, and that a job names instead of sending its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from euterpe.domain.credentials import Side, StorageCredentials, credentials_mismatch
from euterpe.domain.errors import FieldError, InvalidSpec
from euterpe.domain.job_urls import job_urls
from euterpe.domain.locations import scheme_of
from euterpe.domain.spec import JobSpec

_NOT_ALLOWED = "must be a storage profile that the operator lets you use"


@dataclass(frozen=True)
class StorageProfile:
    """Credentials with the names of the requesters that may use them.

    The credentials may be used only for URLs that begin with one of `prefixes`. If `prefixes` is empty, the
    credentials alone decide what may be read and written.
    """

    credentials: StorageCredentials = field(repr=False)
    requesters: frozenset[str]
    prefixes: tuple[str, ...] = ()

    def allows(self, url: str) -> bool:
        return not self.prefixes or url.startswith(self.prefixes)


StorageProfiles = Mapping[str, StorageProfile]


def with_stored_credentials(spec: JobSpec, requester: str, profiles: StorageProfiles) -> JobSpec:
    """Return the spec with the credentials of its storage profile, or unchanged if it names no profile.

    Raise `InvalidSpec` if the requester may not use the profile. The error does not show whether such a
    profile exists.
    """
    if spec.storage is None:
        return spec
    profile = profiles.get(spec.storage)
    if profile is None or requester not in profile.requesters:
        raise InvalidSpec((FieldError(("storage",), _NOT_ALLOWED),))
    sides: dict[Side, str] = {"source": spec.source.scheme, "output": spec.output.scheme}
    if problem := credentials_mismatch(profile.credentials, sides):
        raise InvalidSpec((FieldError(("storage",), problem),))
    outside = tuple(
        FieldError(loc, f"must begin with one of {', '.join(profile.prefixes)}")
        for loc, _, url in job_urls(spec)
        if scheme_of(url) == profile.credentials.type and not profile.allows(url)
    )
    if outside:
        raise InvalidSpec(outside)
    return spec.model_copy(update={"credentials": profile.credentials})
