"""A queue for small jobs in the database of the transcoding jobs, with OmniQ's client contract."""

from euterpe.queue.consumer import JobContext
from euterpe.queue.queue import Paused, Queue, ReservedJob
from euterpe.queue.ulids import ulid
from euterpe.store.errors import NotActive, TokenMismatch

__all__ = ["JobContext", "NotActive", "Paused", "Queue", "ReservedJob", "TokenMismatch", "ulid"]
