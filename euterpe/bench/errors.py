"""Why there is no figure."""

from euterpe.domain.errors import EuterpeError


class BenchFailed(EuterpeError):
    code = "bench_failed"
