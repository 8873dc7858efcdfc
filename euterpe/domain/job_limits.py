"""The operator's upper limits on the fields of a job, for all requesters or for one requester."""

from dataclasses import dataclass, fields

from euterpe.domain.errors import FieldError, InvalidSpec
from euterpe.domain.spec import JobSpec


@dataclass(frozen=True)
class JobLimits:
    """Upper limits for the fields of a job. If a limit is None, only the bounds of the job spec apply."""

    max_timeout_seconds: int | None = None
    max_attempts: int | None = None
    max_priority: int | None = None

    def min_with(self, other: "JobLimits") -> "JobLimits":
        """Return limits in which each field has the smaller of the values in `self` and `other`."""
        names = [field.name for field in fields(self)]
        return JobLimits(**{name: _smaller(getattr(self, name), getattr(other, name)) for name in names})

    def check(self, spec: JobSpec) -> None:
        """Raise `InvalidSpec` with an error for each field above its limit.

        A field that the job leaves out is not checked, because its default value is lowered to the limit.
        """
        asked = (
            ("timeout_seconds", spec.timeout_seconds, self.max_timeout_seconds),
            ("max_attempts", spec.max_attempts, self.max_attempts),
            ("priority", spec.priority, self.max_priority),
        )
        problems = tuple(
            FieldError((name,), f"must be at most {most}: the operator allows no more")
            for name, value, most in asked
            if name in spec.model_fields_set and value is not None and most is not None and value > most
        )
        if problems:
            raise InvalidSpec(problems)

    def attempts(self, default: int) -> int:
        """Return the number of attempts of a job that does not set `max_attempts`."""
        return _smaller(default, self.max_attempts) or default

    def timeout_seconds(self, wanted: int) -> int:
        """Return the timeout of a job. `wanted` is the value in the request, or the default."""
        return _smaller(wanted, self.max_timeout_seconds) or wanted

    def priority(self, wanted: int) -> int:
        """Return the priority of a job. `wanted` is the value in the request, or the default."""
        return wanted if self.max_priority is None else min(wanted, self.max_priority)


NO_LIMITS = JobLimits()


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((value for value in (one, other) if value is not None), default=None)
