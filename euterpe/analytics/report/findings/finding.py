"""A sentence of "What changed"."""

from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """Smaller is more important; a `fact` is not notable, but says where things stand."""

    bad = 0
    warning = 1
    good = 2
    note = 3
    fact = 4


@dataclass(frozen=True)
class Finding:
    """`what` is a sentence that stands alone, `evidence` the numbers behind it. `section` shows more.
    `weight` orders equals: the share of what it touches, 0 to 1."""

    severity: Severity
    what: str
    evidence: str
    section: str
    weight: float = 0.0
