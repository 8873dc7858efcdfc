"""The OpenAPI document describes every route, and every answer to generated requests (schemathesis)."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jsonschema_rs
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi import checks
from starlette.routing import Route

from euterpe.api.app import create_app
from euterpe.api.backpressure import ApiLimits
from euterpe.api.openapi import openapi_document
from euterpe.domain.scopes import DEFAULT_SCOPES, Scope
from euterpe.domain.states import JobStatus
from euterpe.net.policy import EgressPolicy
from euterpe.store.store import Store
from tests.api.serving import OneBucketForbidden, Requester, ScriptedDryRun, Served, serving
from tests.store.jobs import advance, claim_one

DOCUMENT = openapi_document(ApiLimits())
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
# No keys are generated. A wrong key in one of the two headers would not make a request invalid, because the
# target's valid key is in the other header.
SCHEMA.config.generation.update(with_security_parameters=False)
# A worker with another protocol version gets 426 before its other fields are validated, because these fields
# can have other types in that version.
SCHEMA.config.checks.negative_data_rejection.expected_statuses = [
    *("400", "401", "403", "404", "405", "406", "409", "415", "422", "426", "428", "429", "5xx")
]
OPERATIONS = {
    f"{method.upper()} {path}": SCHEMA[path][method]
    for path, methods in DOCUMENT["paths"].items()
    for method in methods
}
VALID, INVALID = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
# Operations without parameters have no invalid requests. Path parameters do not count, because any text in a
# path can be a job id.
CASES = [(name, VALID) for name in OPERATIONS] + [
    (name, INVALID)
    for name, operation in OPERATIONS.items()
    if any([*operation.query, *operation.headers, *operation.body])
]
CHECKS = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.allow_header_conformance,
]


def test_every_address_is_described_and_nothing_else(sqlite_store: Store) -> None:
    app = create_app(sqlite_store, ApiLimits(), OneBucketForbidden(), EgressPolicy())
    served = {
        f"{method} {route.path}"
        for route in app.routes
        if isinstance(route, Route) and route.include_in_schema
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert served == set(OPERATIONS)


def test_the_document_is_valid_and_is_what_the_service_gives_out(served: Served) -> None:
    SCHEMA.validate()
    assert served.anonymous.get("/openapi.json").json() == DOCUMENT


def test_every_field_has_a_description_and_a_valid_example() -> None:
    fields = {
        (name, field): node
        for name, schema in DOCUMENT["components"]["schemas"].items()
        for field, node in schema["properties"].items()
    }
    assert len(fields) > 110
    for (name, field), node in fields.items():
        assert node["description"].endswith("."), (name, field)
        pointer = {"$ref": f"#/components/schemas/{name}/properties/{field}"}
        validator = jsonschema_rs.validator_for({**pointer, "components": DOCUMENT["components"]})
        for example in node.get("examples", [node.get("const")]):
            validator.validate(example)


def test_every_example_of_a_job_is_accepted(requester: Requester) -> None:
    body = DOCUMENT["paths"]["/transcode"]["post"]["requestBody"]["content"]["application/json"]
    for name, example in body["examples"].items():
        answer = requester.post(example["value"])
        assert answer.status_code == 202, (name, answer.text)
    made = (output for one in body["examples"].values() for output in one["value"].get("outputs", ()))
    forms = DOCUMENT["components"]["schemas"]["JobSpec"]["properties"]["outputs"]["anyOf"][0]["items"]
    assert {output["type"] for output in made} == set(forms["discriminator"]["mapping"])


def test_only_requests_have_the_key_of_encrypted_outputs() -> None:
    key = DOCUMENT["components"]["schemas"]["Encryption"]["properties"]["key"]
    assert key["writeOnly"]
    answers = [node.get("responses") for path in DOCUMENT["paths"].values() for node in path.values()]
    names = ("Job", "Jobs", "Plan", "Profiles", "Event")
    schemas = [DOCUMENT["components"]["schemas"].get(name) for name in names]
    shown = json.dumps([answers, schemas, DOCUMENT["webhooks"]])
    assert key["examples"][0] not in shown


def test_webhooks_and_callbacks_are_the_same_requests() -> None:
    sent = {name: node["post"] for name, node in DOCUMENT["webhooks"].items()}
    called = DOCUMENT["paths"]["/transcode"]["post"]["callbacks"]
    fields = DOCUMENT["components"]["schemas"]["JobSpec"]["properties"]
    assert list(called) == list(sent)
    for name, callback in called.items():
        ((expression, node),) = callback.items()
        assert expression.removeprefix("{$request.body#/").removesuffix("}") in fields
        assert {**node["post"], "operationId": f"{name}_webhook"} == sent[name]


_LONGEST_WAIT_MS = 5


@dataclass(frozen=True)
class Target:
    served: Served
    headers: dict[str, str]
    finished: str
    http: requests.Session


@pytest.fixture(scope="module")
def target(servers: Any, ring: Any) -> Iterator[Target]:
    """Yield one service for all requests, with a finished job in its database."""
    with (
        servers("sqlite").fresh() as url,
        Store(url, ring) as store,
        serving(store, dry_run=ScriptedDryRun()) as served,
    ):
        requester = served.requester("studio", *DEFAULT_SCOPES, Scope.WORKER)
        finished = requester.submit()
        advance(store, claim_one(store), until=JobStatus.SUCCEEDED)
        with requests.Session() as http:
            http.trust_env = False
            yield Target(served, {"X-API-Key": requester.key}, finished, http)


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_whatever_is_sent_the_answer_is_one_that_is_described(
    target: Target, name: str, mode: GenerationMode
) -> None:
    operation = OPERATIONS[name]

    @given(st.data())
    @settings(max_examples=30, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    def send(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(mode))
        if data.draw(st.booleans()):
            use_job(target.finished, case)
        query = case.query or {}
        # Skip dicts: schemathesis counts them as invalid, but sends them as lists, which the API accepts.
        assume(not isinstance(query.get("job_id"), dict))
        if isinstance(query.get("wait_ms"), int) and query["wait_ms"] > _LONGEST_WAIT_MS:
            query["wait_ms"] = _LONGEST_WAIT_MS
        if name == "POST /internal/worker/claim" and isinstance(case.body, dict):
            case.body = with_short_wait(case.body)
        case.call_and_validate(
            base_url=target.served.url, session=target.http, headers=target.headers, checks=CHECKS
        )

    send()


def with_short_wait(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a claim with a wait of at most 5 ms. Invalid waits stay invalid.

    Without the field, the server waits 5 s.

    The body is copied, because it may be an example of the document that every test of this process shares.
    """
    wait_ms = body.get("max_wait_ms")
    if wait_ms is None or (isinstance(wait_ms, int | float) and wait_ms % 1 == 0 and 0 < wait_ms <= 2**53):
        return {**body, "max_wait_ms": min(wait_ms or _LONGEST_WAIT_MS, _LONGEST_WAIT_MS)}
    return body


def use_job(job_id: str, case: schemathesis.Case[Any]) -> None:
    if "job_id" in case.path_parameters:
        case.path_parameters["job_id"] = job_id
    if isinstance(case.query.get("job_id"), list):
        case.query["job_id"] = [job_id, *case.query["job_id"][1:]]
