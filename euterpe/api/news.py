"""What a job's event stream tells, and when there is no more to tell. Decides and spells; reads nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from euterpe.api.answers import encoded
from euterpe.domain.events import event_type
from euterpe.domain.states import FINISHED, IN_PROGRESS
from euterpe.domain.status import status_document

BEAT = b": beat\n\n"

_TERMINAL = frozenset(map(event_type, FINISHED))
_FIGURES = ("progress", "eta_seconds", "speed")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class News:
    """A job, and its events after those that were told. The job was read first: they may be newer."""

    job: Row
    events: Sequence[Row]
    told: int
    is_full: bool = False  # there may be more events already

    @property
    def now_told(self) -> int:
        return int(self.events[-1]["sequence"]) if self.events else self.told

    @property
    def is_last(self) -> bool:
        """A failure and the dead letter after it are committed together: a failure that comes last rests."""
        if self.events:
            return not self.is_full and self.events[-1]["type"] in _TERMINAL
        return self.job["status"] in FINISHED and self.job["event_sequence"] <= self.told

    @property
    def figures(self) -> tuple[float, ...] | None:
        """How far the work is: nothing before it begins, or when the job has moved on since it was read."""
        if self.job["status"] not in IN_PROGRESS or self.job["event_sequence"] != self.now_told:
            return None
        figures = tuple(self.job[name] for name in _FIGURES)
        return figures if any(figures) else None

    def progress(self) -> bytes:
        document = status_document(self.job)
        return frame("progress", encoded({name: document[name] for name in ("job_id", "status", *_FIGURES)}))

    def frames(self) -> bytes:
        return b"".join(
            b"id: %d\n" % event["sequence"] + frame(event["type"], event["payload"].encode())
            for event in self.events
        )


def hello(job_id: str) -> bytes:
    return frame("hello", encoded({"job_id": job_id}))


def frame(name: str, data: bytes) -> bytes:
    """`data` is JSON in one line: nothing in it ends the field."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)
