"""Base classes of Euterpe's errors. Every error has a stable `code`."""

from dataclasses import dataclass


class EuterpeError(Exception):
    """Base class of all errors that a caller should handle."""

    code = "error"
    retryable = False


class InvalidTransition(EuterpeError):
    code = "invalid_transition"

    def __init__(self, source: str, target: str, why: str = "the state machine has no such edge") -> None:
        super().__init__(f"{source} -> {target}: {why}")
        self.source, self.target = str(source), str(target)


@dataclass(frozen=True)
class FieldError:
    """An error in a request: its location, and how to fix it."""

    loc: tuple[str | int, ...]
    msg: str


class InvalidSpec(EuterpeError):
    """Raised for a request that breaks the rules of the job spec. `errors` has all errors of the request."""

    code = "invalid_request"

    def __init__(self, errors: tuple[FieldError, ...]) -> None:
        self.errors = errors
        super().__init__("; ".join(f"{'.'.join(map(str, e.loc)) or 'body'}: {e.msg}" for e in errors))
