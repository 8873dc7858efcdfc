"""Who asks: a dozen requesters, each with its size, storage and receiver. The same in every history."""

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
_ENDS = ("succeeded", "failed", "dead_letter")


class WebhookReceiver(NamedTuple):
    """How a webhook's receiver answers: each try fails with this probability, and with this error."""

    failing: float
    error: str  # as the delivery log says it, or `answered` and the status
    median_ms: float

    @property
    def status(self) -> int:
        """0 where it does not answer."""
        return int(self.error.removeprefix("answered ")) if self.error.startswith("answered") else 0

    @property
    def code(self) -> str:
        """As analytics names it."""
        return f"http_{self.status}" if self.status else self.error.partition(":")[0]


class Customer(NamedTuple):
    queue: str
    scheme: str
    receiver: WebhookReceiver | None
    hears: tuple[str, ...] | None  # webhook_events
    has_groups: bool
    refreshes: bool  # its credentials are short-lived

    def wants(self, status: str) -> bool:
        """Also whether it hears of progress: that is only for those who name it."""
        if self.receiver is None:
            return False
        return status != "progress" if self.hears is None else status in self.hears


NOBODY = WebhookReceiver(0.0, "", 1)
_WELL = WebhookReceiver(0.004, "answered 502", 60)
_SLOW = WebhookReceiver(0.12, "egress_timeout: https://slow.example: no whole answer in time", 3_500)
_FLAKY = WebhookReceiver(0.5, "answered 503", 90)
_DEAD = WebhookReceiver(1.0, "egress_unreachable: https://dead.example: no connection", 15)

# From the largest to the smallest.
_KINDS = (
    Customer("default", "s3", _WELL, _ENDS, True, False),
    Customer("default", "s3", _WELL, None, False, True),
    Customer("default", "gs", None, None, False, False),
    Customer("express", "s3", _SLOW, _ENDS, False, False),
    Customer("default", "https", _WELL, ("progress", *_ENDS), False, False),
    Customer("express", "az", _FLAKY, _ENDS, True, True),
    Customer("bulk", "s3", None, None, True, False),
    Customer("default", "gs", _WELL, None, False, False),
    Customer("bulk", "https", _WELL, _ENDS, False, False),
    Customer("default", "s3", _DEAD, _ENDS, False, False),
    Customer("bulk", "file", None, None, False, False),
    Customer("default", "az", _WELL, _ENDS, False, False),
)


def customer(number: int) -> Customer:
    return _KINDS[number % len(_KINDS)]


def requester_name(number: int) -> str:
    again, first = divmod(number, len(_NAMES))
    return _NAMES[first] if not again else f"{_NAMES[first]} {again + 1}"


def requester_id(number: int) -> str:
    """The same in every history, so that two of them in one store are of the same requesters."""
    return f"{_ID}{number:012x}"


def requester_number(requester_id: str) -> int:
    return int(requester_id.removeprefix(_ID), 16)


def named(count: int) -> list[tuple[str, str]]:
    """The first so many requesters, by id and name."""
    return [(requester_id(number), requester_name(number)) for number in range(count)]
