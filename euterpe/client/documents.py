"""Typed views of the API's JSON documents. `euterpe/domain/documents.py` defines their fields.

`document` has all fields, including fields that this version of the SDK does not know.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from euterpe.client.errors import JobFailed
from euterpe.domain.documents import (
    EventDocument,
    ProgressDocument,
    RefreshDocument,
    StatusDocument,
    fields_of,
)
from euterpe.domain.states import FINISHED, JobStatus

Document = Mapping[str, Any]


class MalformedDocument(ValueError):
    """Raised when a document does not have the expected form. Callers convert it to another error."""


@dataclass(frozen=True, kw_only=True)
class _Read:
    """A JSON object: the declared fields as attributes, and the whole object in `document`."""

    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, raw: object) -> Self:
        """Return the parsed document; raise MalformedDocument if a required field is missing."""
        if not isinstance(raw, dict):
            raise MalformedDocument("must be a JSON object")
        named = fields_of(cls)
        for known in named:
            if known.type in (str, int) and not isinstance(raw.get(known.name), known.type):
                raise MalformedDocument(f"{known.name} is missing or malformed")
        return cls(document=raw, **{known.name: raw.get(known.name) for known in named})


@dataclass(frozen=True, kw_only=True)
class Job(_Read, StatusDocument):
    """The status document of a job. Times are ISO 8601 texts in UTC."""

    @property
    def is_finished(self) -> bool:
        """Return whether the job is finished. Only a retry can change the status of a finished job."""
        return self.status in FINISHED

    def raise_for_failure(self) -> Self:
        """Return this job; raise JobFailed if it has failed."""
        if self.is_finished and self.status != JobStatus.SUCCEEDED:
            error = self.error or {}
            raise JobFailed(
                f"job {self.job_id} ended as {self.status}: {error.get('message')}", code=error.get("code")
            )
        return self


@dataclass(frozen=True, kw_only=True)
class Event(_Read, EventDocument):
    """An event of a job. `event_id` is the same in every delivery."""


@dataclass(frozen=True, kw_only=True)
class Progress(_Read, ProgressDocument):
    """The progress of a running job, sent between events."""


@dataclass(frozen=True, kw_only=True)
class Refresh(_Read, RefreshDocument):
    """A worker's request for new credentials: the current credentials were refused or expire soon."""

    @staticmethod
    def answer(
        credentials: Document | None = None,
        *,
        source_url: str | None = None,
        output_urls: Mapping[str, str] | None = None,
        watermark_urls: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return the JSON body of the 200 response: storage keys, or the URLs with new signatures."""
        return json.dumps(replacement(credentials, source_url, output_urls, watermark_urls)).encode()


def replacement(
    credentials: Document | None,
    source_url: str | None,
    output_urls: Mapping[str, str] | None,
    watermark_urls: Mapping[str, str] | None,
) -> dict[str, object]:
    given = {
        "credentials": credentials,
        "source_url": source_url,
        "output_urls": output_urls,
        "watermark_urls": watermark_urls,
    }
    return {name: value for name, value in given.items() if value is not None}
