"""A reader of server-sent events (SSE), which parses them as a browser would."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.api.serving import Requester


@dataclass(frozen=True)
class Frame:
    event: str
    data: str
    id: int | None = None

    @property
    def json(self) -> Any:
        return json.loads(self.data)


@contextmanager
def open_event_stream(
    requester: Requester, job_id: str, *, after: int | None = None
) -> Iterator[Iterator[Frame]]:
    """Wait for the frame `hello`, then yield an iterator over the later frames."""
    headers = {} if after is None else {"last-event-id": str(after)}
    with requester.http.stream("GET", f"/transcode/{job_id}/events", headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        stream = frames(answer)
        hello = next(stream)
        assert (hello.event, hello.json) == ("hello", {"job_id": job_id})
        yield stream


def frames(answer: httpx.Response) -> Iterator[Frame]:
    fields: dict[str, str] = {}
    for line in answer.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        else:
            number = fields.get("id")
            if "event" in fields:
                yield Frame(fields["event"], fields["data"], None if number is None else int(number))
            fields = {}
