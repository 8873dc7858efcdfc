"""A model of the Redis Streams contract: the change that each script makes to a job.

Several consumers compete for the job.
"""

from dataclasses import dataclass, field

ENDS = ("done", "error")
TERMINAL = (*ENDS, "canceled")
TTL_S, TTL_WITHOUT_RESULT_S = 7200, 3600


@dataclass
class ModelJob:
    """The state of one job. `holder` is None before the first delivery and after the acknowledgement."""

    status: str | None = "queued"  # None if the Redis hash of the job is missing
    result: str = ""
    events: list[str] = field(default_factory=lambda: ["queued"])
    is_delivered: bool = False
    is_acknowledged: bool = False
    is_trimmed: bool = False  # another client has removed the message from the stream
    holder: str | None = None

    def read(self, consumer: str) -> bool:
        if self.is_delivered or self.is_trimmed:
            return False
        self.is_delivered, self.holder = True, consumer
        return True

    def reclaim(self, consumer: str) -> bool:
        if self.holder is None:
            return False
        if self.is_trimmed:  # Redis drops such a message instead of reassigning it
            self.holder, self.is_acknowledged = None, True
            return False
        self.holder = consumer
        return True

    def running(self, consumer: str) -> str:
        if self.holder != consumer:
            return "lost"
        if self.status is None:
            return self._acknowledged("missing")
        if self.status == "canceled":
            return "canceled"
        if self.status in TERMINAL:
            return self._acknowledged("ended")
        if self.status != "running":
            self.status = "running"
            self.events.append("running")
        return "running"

    def heartbeat(self, consumer: str) -> str:
        if self.holder not in (None, consumer):
            return "lost"
        return "canceled" if self.status == "canceled" else "held"

    def progress(self, consumer: str) -> str:
        if self.holder not in (None, consumer):
            return "lost"
        if self.status != "running":
            return "ended"
        self.events.append("progress")
        return "held"

    def finish(self, consumer: str, status: str, result: str) -> str:
        if self.holder not in (None, consumer):
            return "lost"
        if self.status is None:
            return self._acknowledged("missing")
        if self.status in TERMINAL:
            return self._acknowledged("ended")
        self.status, self.result = status, result
        self.events.append(status)
        return self._acknowledged("finished")

    def cancel(self) -> tuple[str, bool]:
        if self.status is None:
            return "missing", False
        if self.status in TERMINAL:
            return self.status, False
        self.status = "canceled"
        self.events.append("canceled")
        return "canceled", True

    def remove(self) -> None:
        self.status, self.result, self.events = None, "", []

    @property
    def ttl_s(self) -> int:
        """Return the TTL: an hour for jobs that ended without a result, and otherwise that of the request."""
        return TTL_WITHOUT_RESULT_S if self.status in ("error", "canceled") else TTL_S

    def _acknowledged(self, word: str) -> str:
        if self.holder is not None:
            self.holder, self.is_acknowledged = None, True
        return word
