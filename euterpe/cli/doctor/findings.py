"""The results of `euterpe doctor`."""

from collections.abc import Callable
from dataclasses import dataclass

from euterpe.domain.errors import EuterpeError


class DoctorFinding(EuterpeError):
    code = "doctor"


@dataclass(frozen=True)
class CheckResult:
    check: str
    ok: bool
    detail: str  # what was found; for a failure, also how to fix it
    is_warning: bool = False  # Euterpe runs despite this problem

    @property
    def verdict(self) -> str:
        if not self.ok:
            return "FAILED"
        return "warning" if self.is_warning else "ok"


def check(name: str, step: Callable[[], str]) -> CheckResult:
    """Run a check and return its result.

    `step` returns what it found, or raises an error that says how to fix the problem.
    """
    try:
        return CheckResult(name, True, step())
    except EuterpeError as error:
        return CheckResult(name, False, "; ".join(str(error).splitlines()))
