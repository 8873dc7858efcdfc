"""Who publishes under a name, what is there already, and what it must still be when we replace it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from euterpe.domain.retry import RetryClass
from euterpe.storage.errors import StorageError
from euterpe.storage.transfer import Stored

# HTTP dates have whole seconds: an object of the second in which the attempt began may be older than it.
_GRAIN_S = 1.0


@dataclass(frozen=True)
class ObjectState:
    """An object as its store shows it. Without an identity nothing is known but that it may be there."""

    identity: str | None  # its generation, its ETag, or the file's numbers: new whenever the content is
    size: int | None = None
    job_id: str | None = None  # of the job that published it, if a job of Euterpe did
    age_s: float | None = None  # by the store's own clock
    sha256: str | None = None  # as its publisher, if that was Euterpe, noted it


UNKNOWN = ObjectState(None)


class Changed(Exception):
    """The store refused a condition: the object is not, or not any more, what was expected."""


class Unconditional(Exception):
    """The store does not do conditions."""


def _unknown(_job_id: str) -> None:
    """Return None, as of a job of another installation."""


@dataclass(frozen=True)
class Owner:
    """The attempt that publishes; `began` is when it began, on `now`'s clock.

    `is_rival` tells whether the job that published an object describes it now, or did so after this attempt
    began; None of a job that is not in this database.
    """

    job_id: str
    claim_version: int
    now: Callable[[], float] = field(default=time.monotonic, repr=False)
    began: float = field(default=-1.0, repr=False)
    is_rival: Callable[[str], bool | None] = field(default=_unknown, repr=False)

    def __post_init__(self) -> None:
        if self.began < 0:
            object.__setattr__(self, "began", self.now())

    @property
    def metadata(self) -> dict[str, str]:
        return {"job-id": self.job_id, "claim-version": str(self.claim_version)}

    def refuse_foreign(self, where: str, found: ObjectState | None, sha256: str) -> None:
        """Raise `output_conflict` for an object that another job published since this attempt began.

        What is older is replaced: to run a job again into the same prefix is no conflict. Nor are two jobs
        that make the same bytes: what each says of its output is true. Of a job that is not in this database
        two ages are compared, of the object and of the attempt, each by one clock: skew does no harm.
        """
        if found is None or found.job_id in (None, self.job_id) or found.sha256 == sha256:
            return
        is_rival = self.is_rival(found.job_id)
        if is_rival is None and found.age_s is not None:
            is_rival = found.age_s + _GRAIN_S < self.now() - self.began
        if is_rival:
            raise conflict(where)

    def differs(self, where: str, found: ObjectState | None) -> StorageError:
        """Return the error for an object that is not any more what we published."""
        if found is not None and found.job_id not in (None, self.job_id):
            return conflict(where)
        what = "is gone" if found is None else "was replaced"
        problem = f"{where}: {what} after it was published and before the job had succeeded"
        return StorageError("output_changed", problem, side="output", retry_class=RetryClass.TRANSIENT)


def is_same(found: ObjectState | None, stored: Stored) -> bool:
    """Tell whether an object is still what was stored, or was replaced by the same bytes."""
    if found is None or found.size not in (None, stored.size_bytes):
        return False
    return stored.identity in (None, found.identity) or found.sha256 == stored.sha256


def conflict(where: str) -> StorageError:
    problem = f"{where}: another job wrote it at the same time: give each job an output prefix of its own"
    return StorageError("output_conflict", problem, side="output")
