"""The fields that the schemas of several calls share, and short functions that build schemas of fields."""

from typing import Any

from euterpe.api.openapi_examples import JOB_ID
from euterpe.api.schemas import about
from euterpe.api.worker.call import LONGEST_TOKEN
from euterpe.domain.json_schema import Schema

Properties = dict[str, Any]
AT = "2026-03-01T12:01:00.000Z"
CLAIM_ID = "5f0c8a58-0a51-4c0e-9d55-9a1f6d6f4c11"
MOST = 2**53
TIMINGS = {"process_ms": 5200, "cpu_ms": 20100}
_ATTEMPT = "0199a7c4-5b1e-7000-8000-0000000000a1"
_PROOF = "elt1.lease-1.AZmnxFsecACAAAAAAAAAAQGZp8RbHnAAgAAAAAAAAKEAAAAAAAAABw.qEJ4sMt7RKCA2o53quK0Ow"


def text_of(description: str, example: str, longest: int = 255) -> Schema:
    return about(description, example, type="string", minLength=1, maxLength=longest)


def maybe(description: str, example: object, kind: str, **schema: object) -> Schema:
    """Return the schema of an optional field, which can also be null."""
    return about(description, example, type=[kind, "null"], **schema)


def maybe_text(description: str, example: str, longest: int = 255) -> Schema:
    return maybe(description, example, "string", minLength=1, maxLength=longest)


def worker_fields() -> Properties:
    return {"worker_id": text_of("The name of the worker.", "worker-eu-1-a")}


def lease_fields(*, has_attempt: bool = True) -> Properties:
    attempt = text_of("The attempt, as claimed.", _ATTEMPT)
    return {
        "job_id": text_of("The job.", JOB_ID),
        **({"attempt_id": attempt} if has_attempt else {}),
        "lease_token": text_of("The token, as claimed.", _PROOF, LONGEST_TOKEN),
    }


def message_fields() -> Properties:
    stream: Any = about("The stream, as claimed; or an object with `name` and `message_id`.", "default")
    named = {
        "type": "object",
        "properties": {name: {"type": ["string", "null"]} for name in ("name", "message_id")},
    }
    text = {"type": "string", "minLength": 1, "maxLength": 255}
    return {
        "stream": {**stream, "anyOf": [text, named, {"type": "null"}]},
        "message_id": maybe_text("The message, as claimed. It is not compared.", f"0-{JOB_ID}"),
    }


def flag(description: str, *, example: bool = True) -> Schema:
    return about(description, example, type="boolean")


def time_of(description: str) -> Schema:
    return about(description, AT, type="string", format="date-time")


def timings() -> Schema:
    return maybe("The resources that the attempt has used.", TIMINGS, "object")


def maybe_of(node: Schema) -> Schema:
    return {**node, "type": [node["type"], "null"]}
