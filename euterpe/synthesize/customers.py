"""The twelve kinds of synthetic requesters, with storage and receiver. Every history has the same kinds."""

from typing import NamedTuple

_NAMES = (
    "Nordlicht Film",
    "Harbour News",
    "Casa Verde",
    "Lumen Learning",
    "Podgarden",
    "Atlas Sports",
    "Old Mill Archive",
    "Riverside University",
    "Pixel and Sons",
    "Cantata",
    "Signal Room",
    "Foxglove",
)
_ID = "0177f2c0-0000-7000-8000-"
_TERMINAL = ("succeeded", "failed", "dead_letter")


class WebhookReceiver(NamedTuple):
    """The behaviour of a webhook receiver. With probability `failing`, a delivery fails with `error`."""

    failing: float
    error: str  # as in the delivery log: `answered` and a status, or an error code and a reason
    median_ms: float

    @property
    def status(self) -> int:
        """Return the HTTP status of a failed delivery, or 0 if there is no response."""
        return int(self.error.removeprefix("answered ")) if self.error.startswith("answered") else 0

    @property
    def code(self) -> str:
        """Return the error code of a failed delivery, as the analytics tables write it."""
        return f"http_{self.status}" if self.status else self.error.partition(":")[0]


class RequesterProfile(NamedTuple):
    queue: str
    scheme: str
    receiver: WebhookReceiver | None
    hears: tuple[str, ...] | None  # webhook_events
    has_groups: bool
    refreshes: bool  # the requester's credentials are short-lived

    def wants(self, status: str) -> bool:
        """Return whether events of this status are delivered. `progress` events must be listed in `hears`."""
        if self.receiver is None:
            return False
        return status != "progress" if self.hears is None else status in self.hears


NO_RECEIVER = WebhookReceiver(0.0, "", 1)
_HEALTHY = WebhookReceiver(0.004, "answered 502", 60)
_SLOW = WebhookReceiver(0.12, "egress_timeout: https://slow.example: no whole answer in time", 3_500)
_FLAKY = WebhookReceiver(0.5, "answered 503", 90)
_DEAD = WebhookReceiver(1.0, "egress_unreachable: https://dead.example: no connection", 15)

# The kinds are ordered by the size of the requester, the largest first.
_KINDS = (
    RequesterProfile("default", "s3", _HEALTHY, _TERMINAL, True, False),
    RequesterProfile("default", "s3", _HEALTHY, None, False, True),
    RequesterProfile("default", "gs", None, None, False, False),
    RequesterProfile("express", "s3", _SLOW, _TERMINAL, False, False),
    RequesterProfile("default", "https", _HEALTHY, ("progress", *_TERMINAL), False, False),
    RequesterProfile("express", "az", _FLAKY, _TERMINAL, True, True),
    RequesterProfile("bulk", "s3", None, None, True, False),
    RequesterProfile("default", "gs", _HEALTHY, None, False, False),
    RequesterProfile("bulk", "https", _HEALTHY, _TERMINAL, False, False),
    RequesterProfile("default", "s3", _DEAD, _TERMINAL, False, False),
    RequesterProfile("bulk", "file", None, None, False, False),
    RequesterProfile("default", "az", _HEALTHY, _TERMINAL, False, False),
)


def customer(number: int) -> RequesterProfile:
    return _KINDS[number % len(_KINDS)]


def requester_name(number: int) -> str:
    again, first = divmod(number, len(_NAMES))
    return _NAMES[first] if not again else f"{_NAMES[first]} {again + 1}"


def requester_id(number: int) -> str:
    """Return a requester's id.

    The id is the same in every history, so two histories in one store share requesters.
    """
    return f"{_ID}{number:012x}"


def requester_number(requester_id: str) -> int:
    return int(requester_id.removeprefix(_ID), 16)


def named(count: int) -> list[tuple[str, str]]:
    """Return the id and name of the first `count` requesters."""
    return [(requester_id(number), requester_name(number)) for number in range(count)]
