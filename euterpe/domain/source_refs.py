"""The `source_ref` of a job that a bridge has made: the name of its message in a foreign queue.

A `source_ref` belongs to one job for ever, so a message that is delivered again never makes a second job.
"""

from enum import StrEnum
from hashlib import sha256
from urllib.parse import quote

_LONGEST = 255  # the store refuses longer texts


class ForeignQueue(StrEnum):
    """The foreign systems whose jobs Euterpe serves. The value is the first part of a `source_ref`."""

    BULLMQ = "bullmq"
    OMNIQ = "omniq"
    STREAM = "stream"


# The foreign queues that deliver a failed message again, after a pause that they choose.
_PACED = (ForeignQueue.BULLMQ, ForeignQueue.OMNIQ)


def source_ref_of(queue: ForeignQueue, *parts: str) -> str:
    """Return the `source_ref` of a message. Different parts give different refs.

    The parts are escaped, because a prefix or an id may contain the separator. A ref that would be longer
    than 255 characters is replaced by its hash.
    """
    ref = ":".join((queue, *(quote(part, safe="") for part in parts)))
    return ref if len(ref) <= _LONGEST else f"{queue}:sha256:{sha256(ref.encode()).hexdigest()}"


def is_paced_elsewhere(source_ref: str | None) -> bool:
    """Return whether the foreign queue of this job decides when a failed attempt is repeated."""
    return source_ref is not None and source_ref.startswith(tuple(f"{queue}:" for queue in _PACED))
