"""Header names and capabilities that differ between S3, Google Cloud Storage and Azure."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import md5
from types import MappingProxyType

from euterpe.storage.publication import ObjectState
from euterpe.storage.responses import body_range, instant


@dataclass(frozen=True)
class Dialect:
    content_type: str  # the name of the header with an object's media type
    metadata: str  # the prefix of metadata headers
    hyphen: str = "-"
    put: Mapping[str, str] = field(default_factory=dict)  # additional headers of the PUT of a whole object
    has_generations: bool = False
    wants_md5: bool = True  # False for S3, whose signature contains a SHA-256 of the body
    conditional_parts: bool = True  # True if the completion of a multipart upload may have a condition

    def describe(self, content_type: str, metadata: Mapping[str, str]) -> dict[str, str]:
        """Return the headers that the store keeps with an object."""
        return {self.content_type: content_type, **{self._named(name): metadata[name] for name in metadata}}

    def _named(self, name: str) -> str:
        return self.metadata + f"euterpe-{name}".replace("-", self.hyphen)

    def condition(self, expected: ObjectState | None) -> dict[str, str]:
        """Return the headers that let a write replace only `expected`.

        If `expected` is None, only a new object is allowed. If the store gave no identity for `expected`, the
        write is unconditional.
        """
        if expected is not None and expected.identity is None:
            return {}
        if self.has_generations:
            return {"x-goog-if-generation-match": "0" if expected is None else str(expected.identity)}
        return {"if-none-match": "*"} if expected is None else {"if-match": f'"{expected.identity}"'}

    def checksum(self, body: bytes) -> dict[str, str]:
        """Return the header that makes the store refuse a body that was corrupted in transit."""
        if not self.wants_md5:
            return {}
        return {"content-md5": b64encode(md5(body, usedforsecurity=False).digest()).decode()}

    def state(self, headers: Mapping[str, str]) -> ObjectState:
        """Return the state of an object from the headers of a HEAD response."""
        asked, modified = instant(headers, "date"), instant(headers, "last-modified")
        age = (asked - modified).total_seconds() if asked and modified else None
        return ObjectState(
            self.identity(headers),
            body_range(headers)[1],
            headers.get(self._named("job-id")),
            age,
            headers.get(self._named("sha256")),
        )

    def identity(self, headers: Mapping[str, str]) -> str | None:
        """Return the generation or ETag of an object, which changes whenever the object is replaced."""
        if self.has_generations:
            return headers.get("x-goog-generation")
        return bare_etag(headers.get("etag"))


def bare_etag(etag: str | None) -> str | None:
    """Return an ETag without its quotes, because some stores omit the quotes."""
    return None if etag is None else etag.removeprefix("W/").strip('"') or None


DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        "s3": Dialect("content-type", "x-amz-meta-", wants_md5=False),
        # Google accepts no precondition when a multipart upload is completed.
        "gs": Dialect(
            "content-type",
            "x-goog-meta-",
            has_generations=True,
            conditional_parts=False,
        ),
        # Azure accepts no hyphen in a metadata name.
        "az": Dialect(
            "x-ms-blob-content-type",
            "x-ms-meta-",
            hyphen="_",
            put={"x-ms-blob-type": "BlockBlob"},
        ),
    }
)
