"""What S3, Google Cloud Storage and Azure call the same things."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import md5
from types import MappingProxyType

from euterpe.storage.publication import ObjectState
from euterpe.storage.responses import extent, instant


@dataclass(frozen=True)
class Dialect:
    content_type: str  # the header that names an object's type
    metadata: str  # what the headers of our metadata begin with
    hyphen: str = "-"
    put: Mapping[str, str] = field(default_factory=dict)  # headers of a whole object that is sent
    has_generations: bool = False
    wants_md5: bool = True  # S3 is sent a SHA-256 instead, in the signature
    conditional_parts: bool = True  # an upload in parts may be completed on a condition

    def describe(self, content_type: str, metadata: Mapping[str, str]) -> dict[str, str]:
        """Return the headers that an object keeps."""
        return {self.content_type: content_type, **{self._named(name): metadata[name] for name in metadata}}

    def _named(self, name: str) -> str:
        return self.metadata + f"euterpe-{name}".replace("-", self.hyphen)

    def condition(self, expected: ObjectState | None) -> dict[str, str]:
        """Return the headers by which the store replaces nothing but `expected`; None is no object."""
        if expected is not None and expected.identity is None:
            return {}
        if self.has_generations:
            return {"x-goog-if-generation-match": "0" if expected is None else str(expected.identity)}
        return {"if-none-match": "*"} if expected is None else {"if-match": f'"{expected.identity}"'}

    def checksum(self, body: bytes) -> dict[str, str]:
        """Return the header by which the store refuses a body that changed on the way."""
        if not self.wants_md5:
            return {}
        return {"content-md5": b64encode(md5(body, usedforsecurity=False).digest()).decode()}

    def state(self, headers: Mapping[str, str]) -> ObjectState:
        """Return what the answer to a HEAD says of an object."""
        asked, modified = instant(headers, "date"), instant(headers, "last-modified")
        age = (asked - modified).total_seconds() if asked and modified else None
        return ObjectState(
            self.identity(headers),
            extent(headers)[1],
            headers.get(self._named("job-id")),
            age,
            headers.get(self._named("sha256")),
        )

    def identity(self, headers: Mapping[str, str]) -> str | None:
        """Return what is new whenever an object is replaced."""
        if self.has_generations:
            return headers.get("x-goog-generation")
        return bare_etag(headers.get("etag"))


def bare_etag(etag: str | None) -> str | None:
    """Return an ETag without its quotes: stores differ in whether they write them."""
    return None if etag is None else etag.removeprefix("W/").strip('"') or None


DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        "s3": Dialect("content-type", "x-amz-meta-", wants_md5=False),
        # Google takes no precondition when an upload in parts is completed.
        "gs": Dialect(
            "content-type",
            "x-goog-meta-",
            has_generations=True,
            conditional_parts=False,
        ),
        # Azure takes no hyphen in the name of a metadatum.
        "az": Dialect(
            "x-ms-blob-content-type",
            "x-ms-meta-",
            hyphen="_",
            put={"x-ms-blob-type": "BlockBlob"},
        ),
    }
)
