"""The documents of users are defined once: schema, SDK, API and stored bodies have the same fields."""

import json

import pytest

from euterpe.api.backpressure import ApiLimits
from euterpe.api.openapi import openapi_document
from euterpe.client.documents import Event, Job, Progress, Refresh
from euterpe.domain.documents import (
    ErrorDocument,
    EventDocument,
    JobFields,
    ProgressDocument,
    RefreshDocument,
    StatusDocument,
    example_document,
    fields_of,
)
from euterpe.domain.events import event_body
from euterpe.domain.json_schema import object_schema
from euterpe.domain.retry import canceled
from euterpe.store.store import Store
from euterpe.store.tables import inbox_jobs
from tests.api.serving import serving

VIEWS = {Job: StatusDocument, Event: EventDocument, Progress: ProgressDocument, Refresh: RefreshDocument}


def names(document: type) -> list[str]:
    return [one.name for one in fields_of(document)]


def test_schema_sdk_and_answer_of_the_status_have_the_same_fields(store: Store) -> None:
    with serving(store) as served:
        requester = served.requester()
        answer = requester.status(requester.submit()).json()
    described = openapi_document(ApiLimits())["components"]["schemas"]["Job"]
    assert list(answer) == names(StatusDocument)
    assert names(Job) == names(StatusDocument)
    assert list(described["properties"]) == described["required"] == names(StatusDocument)
    assert Job.read(answer).document == answer


def test_each_unchanged_field_is_a_column_of_the_jobs() -> None:
    assert set(names(JobFields)) <= set(inbox_jobs.columns.keys())


def test_the_stored_body_of_an_event_is_its_document() -> None:
    body = event_body(
        type_="job.failed",
        event_id="e",
        sequence=1,
        job_id="j",
        status="failed",
        occurred_at=0,
        attempt_count=1,
        external_id="null",
        metadata="{}",
        outputs=None,
        error=json.dumps(canceled("queued").document()),
    )
    assert list(json.loads(body)) == names(EventDocument)
    assert list(json.loads(body)["error"]) == names(ErrorDocument)


@pytest.mark.parametrize(("view", "document"), VIEWS.items())
def test_the_sdk_reads_the_example_document_each_document(view: type[Job], document: type) -> None:
    example = example_document(document)
    read = view.read(example)
    assert {name: getattr(read, name) for name in names(document)} == example


@pytest.mark.parametrize("document", VIEWS.values())
def test_every_field_has_a_type_a_description_and_an_example(document: type) -> None:
    for schema in object_schema(document)["properties"].values():
        assert {"type", "description", "examples"} <= schema.keys()


def test_a_nullable_field_and_a_list_of_objects_are_described_as_such() -> None:
    properties = object_schema(StatusDocument)["properties"]
    assert properties["external_id"]["type"] == ["string", "null"]
    assert properties["error"]["type"] == ["object", "null"]
    assert properties["error"]["required"] == ["code", "message", "retryable"]
    assert properties["outputs"]["items"]["properties"]["files"]["items"]["required"] == [
        "path",
        "size_bytes",
        "sha256",
    ]
    assert properties["metadata"]["additionalProperties"] is True
