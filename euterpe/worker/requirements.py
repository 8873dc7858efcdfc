"""Check whether this worker understands the spec of a job, and whether its ffmpeg has the parts for the job.

Otherwise the job is released for another worker. `Storage.require` checks the storage.
"""

from collections.abc import Mapping
from typing import Any

import structlog

from euterpe.domain.canonical import join_secrets
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.errors import EuterpeError, InvalidSpec
from euterpe.domain.retry import JobError
from euterpe.domain.spec import JobSpec
from euterpe.media.ffmpeg_features import FfmpegFeatures

_log = structlog.get_logger(__name__)
# The message names at most this number of fields. A spec can have up to 100 errors, and the first few show
# which fields are newer.
_MOST_FIELDS = 5


class RequirementMissing(EuterpeError):
    """Raised for a job that another worker may be able to run. `code` is one of `BOUNDED_CODES`."""

    code: ErrorCode

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code

    def job_error(self, phase: str) -> JobError:
        return JobError(self.code, str(self), phase)


def understood_spec(public: Mapping[str, Any], secret: bytes | None) -> JobSpec:
    """Return the complete spec of an accepted job. Raise `RequirementMissing` for a spec of a newer release.

    The API has validated the spec, so only a newer release can have stored a spec that this release refuses.
    """
    try:
        return join_secrets(dict(public), secret)
    except InvalidSpec as invalid:
        found = [".".join(map(str, error.loc)) or "the whole spec" for error in invalid.errors]
    except (LookupError, TypeError, ValueError, AttributeError) as error:  # the spec has another structure
        _log.warning("spec_not_read", error_type=type(error).__name__)
        found = ["the whole spec"]
    # Raise outside `except`, because the chained error could contain the spec, including secrets.
    fields = ", ".join(found[:_MOST_FIELDS])
    raise RequirementMissing(
        ErrorCode.SPEC_NOT_UNDERSTOOD,
        f"the worker's release does not understand the job ({fields}): the operator must update the workers",
    )


def require_features(here: FfmpegFeatures, needed: FfmpegFeatures) -> None:
    """Raise `RequirementMissing` if this worker's ffmpeg lacks something that the job needs."""
    if missing := here.missing(needed):
        names = ", ".join(missing)
        raise RequirementMissing(
            ErrorCode.FFMPEG_INCOMPLETE, f"the worker's ffmpeg has no {names}, which the job needs"
        )
