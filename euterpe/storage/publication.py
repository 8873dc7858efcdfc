"""Detect conflicts between publishers: the owner of an object, its state, and whether it has changed."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from euterpe.domain.error_codes import ErrorCode
from euterpe.storage.errors import StorageError
from euterpe.storage.transfer import Stored

# HTTP dates are rounded to whole seconds, so the age of an object can be wrong by up to a second. So if an
# object seems to be younger than the attempt by less than this time, it may in fact be older.
_GRAIN_S = 1.0


@dataclass(frozen=True)
class ObjectState:
    """An object's state as its store reports it.

    If `identity` is None, it is unknown whether the object exists.
    """

    identity: str | None  # changes with the content: generation, ETag, or a file's inode, time and size
    size: int | None = None
    job_id: str | None = None  # the Euterpe job that published the object, if any
    age_s: float | None = None  # the age of the object by the store's own clock
    sha256: str | None = None  # recorded by Euterpe, if Euterpe published the object


UNKNOWN = ObjectState(None)


class Changed(Exception):
    """The store refused a condition, because the object differs from the expected object."""


class ConditionsUnsupported(Exception):
    """The store does not support conditional writes."""


def _unknown(_job_id: str) -> None:
    """Return None, because the job may belong to another installation. Used as the default of `is_rival`."""


@dataclass(frozen=True)
class Owner:
    """The attempt that publishes. `began` is the time, by the clock `now`, at which the attempt began.

    `is_rival` returns whether another job is unfinished, or succeeded after this attempt began. `is_rival`
    returns None for a job that is not in this database.
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

        An older object is no conflict: it is replaced, so that a job can run again with the same output
        prefix. An object with the same bytes is no conflict, because both jobs report their output correctly.
        For a job that is not in this database, compare two ages: the age of the object by the store's clock,
        and the age of the attempt by our clock. Clock skew has no effect on ages.
        """
        if found is None or found.job_id in (None, self.job_id) or found.sha256 == sha256:
            return
        is_rival = self.is_rival(found.job_id)
        if is_rival is None and found.age_s is not None:
            is_rival = found.age_s + _GRAIN_S < self.now() - self.began
        if is_rival:
            raise conflict(where)

    def differs(self, where: str, found: ObjectState | None) -> StorageError:
        """Return the error for an object that is no longer the published object."""
        if found is not None and found.job_id not in (None, self.job_id):
            return conflict(where)
        what = "is gone" if found is None else "was replaced"
        problem = f"{where}: {what} after it was published and before the job had succeeded"
        return StorageError(ErrorCode.OUTPUT_CHANGED, problem, side="output")


def is_same(found: ObjectState | None, stored: Stored) -> bool:
    """Return whether an object is still the stored object, or was replaced by the same bytes."""
    if found is None or found.size not in (None, stored.size_bytes):
        return False
    return stored.identity in (None, found.identity) or found.sha256 == stored.sha256


def conflict(where: str) -> StorageError:
    problem = f"{where}: another job wrote it at the same time: give each job an output prefix of its own"
    return StorageError(ErrorCode.OUTPUT_CONFLICT, problem, side="output")
