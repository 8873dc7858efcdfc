"""Calls of the official Python and JavaScript libraries of Standard Webhooks, as receivers make them."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from standardwebhooks import Webhook, WebhookVerificationError

from tests.dispatch.fake_receivers import Received
from tests.node import run_node

_VERIFY = """
const { Webhook } = require("standardwebhooks");
const { secret, deliveries } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const verified = deliveries.map(({ headers, body }) => {
  try {
    return { document: new Webhook(secret).verify(Buffer.from(body, "base64"), headers) };
  } catch (error) {
    return { error: `${error.message}` };
  }
});
process.stdout.write(JSON.stringify(verified));
"""


class VerifyAll(Protocol):
    def __call__(self, secret: str, deliveries: Sequence[Received]) -> list[Any]:
        """Return the parsed body of each delivery, or the error text if the library refuses the delivery."""
        ...


def verify_in_python(secret: str, deliveries: Sequence[Received]) -> list[Any]:
    return [_verified(secret, one.headers, one.body) for one in deliveries]


def _verified(secret: str, headers: Mapping[str, str], body: bytes) -> Any:
    try:
        return Webhook(secret).verify(body, dict(headers))
    except WebhookVerificationError as error:
        return str(error)


def verify_in_javascript(secret: str, deliveries: Sequence[Received]) -> list[Any]:
    sent = [{"headers": dict(one.headers), "body": b64encode(one.body).decode()} for one in deliveries]
    answers = json.loads(run_node(_VERIFY, stdin=json.dumps({"secret": secret, "deliveries": sent})))
    return [answer["error"] if "error" in answer else answer["document"] for answer in answers]


LIBRARIES: dict[str, VerifyAll] = {"python": verify_in_python, "javascript": verify_in_javascript}
