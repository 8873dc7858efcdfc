"""Optional outputs: if an optional output fails, the job continues without it and gets a warning."""

import structlog

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.planning.tree import Plan, PlanWarning

# With one of these errors, a job continues without an optional output. The cause of these errors is the
# source or the output itself. Any other error ends the attempt, because the worker may be at fault, or the
# timeout of the job may have passed.
MAY_FAIL = frozenset(
    {
        ErrorCode.SOURCE_DAMAGED,
        ErrorCode.SOURCE_TRUNCATED,
        ErrorCode.SOURCE_UNSUPPORTED,
        ErrorCode.ENCODE_FAILED,
        ErrorCode.OUTPUT_TOO_LARGE,
        ErrorCode.OUTPUT_TRUNCATED,
        ErrorCode.OUTPUT_UNDECODABLE,
        ErrorCode.QUALITY_TOO_LOW,
    }
)

_log = structlog.get_logger(__name__)


def optional_outputs(plan: Plan) -> frozenset[str]:
    """Return the names of the outputs that can be missing from a job that succeeds."""
    return frozenset(name for command in plan.commands if command.is_optional for name in command.outputs)


def output_failed(output: str, error: MediaError) -> PlanWarning:
    """Log that an optional output has failed, and return the warning for the requester."""
    _log.warning("optional_output_failed", output=output, code=error.code)
    return PlanWarning("output_failed", output, f"the output is left out: {error}")
