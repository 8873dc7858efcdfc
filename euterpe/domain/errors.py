"""What can go wrong by the rules; every error has a stable `code`."""

from dataclasses import dataclass


class EuterpeError(Exception):
    """The root of every error that a caller is meant to handle."""

    code = "error"
    retryable = False


class InvalidTransition(EuterpeError):
    code = "invalid_transition"

    def __init__(self, source: str, target: str, why: str = "the state machine has no such edge") -> None:
        super().__init__(f"{source} -> {target}: {why}")
        self.source, self.target = str(source), str(target)


@dataclass(frozen=True)
class FieldError:
    """One thing that is wrong with a request: where, and what to do about it."""

    loc: tuple[str | int, ...]
    msg: str


class InvalidSpec(EuterpeError):
    """A request that breaks the rules of the job spec: all its errors at once."""

    code = "invalid_request"

    def __init__(self, errors: tuple[FieldError, ...]) -> None:
        self.errors = errors
        super().__init__("; ".join(f"{'.'.join(map(str, e.loc)) or 'body'}: {e.msg}" for e in errors))
