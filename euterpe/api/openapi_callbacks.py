"""OpenAPI descriptions of the requests that Euterpe sends: webhooks, and calls for new credentials."""

from collections.abc import Mapping

from euterpe.api.openapi_nodes import Node, content, header, json_body
from euterpe.api.schemas import ref
from euterpe.crypto.signing import (
    EVENT_ID_HEADER,
    NONCE_HEADER,
    SIGNATURE_HEADER,
    STANDARD_ID_HEADER,
    STANDARD_SIGNATURE_HEADER,
    STANDARD_TIMESTAMP_HEADER,
    TIMESTAMP_HEADER,
)
from euterpe.domain.documents import EventDocument, RefreshDocument, example_document
from euterpe.domain.json_schema import Schema

_VERIFY = "Verify the signature over the raw body before anything else reads it."
_ID: Schema = {"type": "string", "format": "uuid"}
_UNIX_SECONDS: Schema = {"type": "string", "pattern": "^[0-9]+$", "examples": ["1772366400"]}
_HEADERS: Mapping[str, tuple[Schema, str]] = {
    EVENT_ID_HEADER: (_ID, "The `event_id` of the body."),
    TIMESTAMP_HEADER: (_UNIX_SECONDS, "When this request was signed, in Unix seconds."),
    NONCE_HEADER: ({"type": "string", "pattern": "^[0-9a-f]{32}$"}, "Different in each request."),
    SIGNATURE_HEADER: (
        {"type": "string", "examples": [f"v1={'5257a869' * 8}"]},
        "`v1=` and the HMAC-SHA256 of `TIMESTAMP.NONCE.BODY` in hex, one for each valid secret.",
    ),
}
_STANDARD_HEADERS: Mapping[str, tuple[Schema, str]] = {
    STANDARD_ID_HEADER: (_ID, "The `event_id` of the body."),
    STANDARD_TIMESTAMP_HEADER: (_UNIX_SECONDS, "When this request was signed, in Unix seconds."),
    STANDARD_SIGNATURE_HEADER: (
        {"type": "string", "examples": ["v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4="]},
        "`v1,` and the HMAC-SHA256 of `ID.TIMESTAMP.BODY` in Base64, one for each valid secret.",
    ),
}


def webhooks() -> dict[str, Node]:
    return {"event": {"post": _event("event_webhook")}, "refresh": {"post": _refresh("refresh_webhook")}}


def callbacks() -> Node:
    """Return the requests of `webhooks()` in the form of OpenAPI callbacks.

    The key of a callback names the field of the job that contains the URL.
    """
    return {
        "event": {"{$request.body#/status_webhook_url}": {"post": _event("event_callback")}},
        "refresh": {"{$request.body#/refresh_url}": {"post": _refresh("refresh_callback")}},
    }


def _event(name: str) -> Node:
    return _sent(
        name,
        "Receive an event",
        f"Sent to the job's `status_webhook_url`, at least once, with the same body each time. {_VERIFY} "
        "Deduplicate by `event_id`; `sequence` has the order.",
        json_body(
            "Event", {"event": {"summary": "The job has succeeded", "value": example_document(EventDocument)}}
        ),
        {
            "2XX": {"description": "Received: the event is not sent again."},
            "410": {"description": "Gone: the event is a dead letter at once."},
            "default": {"description": "The event is sent again later; redirects are not followed."},
        },
    )


def _refresh(name: str) -> Node:
    return _sent(
        name,
        "Give new credentials",
        f"Sent to the job's `refresh_url` when its credentials are refused or expire soon. {_VERIFY}",
        json_body(
            "Refresh", {"forbidden": {"summary": "Refused", "value": example_document(RefreshDocument)}}
        ),
        {
            "200": content("The new credentials.", "application/json", ref("NewCredentials")),
            "202": {"description": "You will send them with `PUT /transcode/{job_id}/credentials`."},
            "204": {"description": "The same as 202."},
            "4XX": {"description": "Refused: the worker asks again, as often as the operator allows."},
            "default": {"description": "The same as 4XX; redirects are not followed."},
        },
    )


def _sent(name: str, summary: str, description: str, body: Node, responses: Node) -> Node:
    headers = [
        header(name, schema, f"{text} Sent with `webhook_format` `{format_}`.")
        for format_, table in (("euterpe", _HEADERS), ("standard", _STANDARD_HEADERS))
        for name, (schema, text) in table.items()
    ]
    return {
        "operationId": name,
        "summary": summary,
        "description": description,
        "tags": ["webhooks"],
        "security": [],
        "parameters": headers,
        "requestBody": body,
        "responses": responses,
    }
