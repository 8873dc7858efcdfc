"""Round the numbers of a request to the precision of a plan."""

from pydantic import AfterValidator

_DECIMALS = 6


def _rounded(number: float) -> float:
    """Return the number rounded to the precision of a plan. Return 0.0 instead of -0.0."""
    return round(number, _DECIMALS) + 0.0


Rounded = AfterValidator(_rounded)
