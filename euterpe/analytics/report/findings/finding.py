"""The type of a finding, a sentence of the section "What changed"."""

from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """The importance of a finding: the smallest value is the most important. A `fact` only states a total."""

    bad = 0
    warning = 1
    good = 2
    note = 3
    fact = 4


@dataclass(frozen=True)
class Finding:
    """A finding: `what` is a sentence that stands alone, `evidence` the numbers behind it, `section` tells
    where to read more. `weight`, the affected share from 0 to 1, orders findings of one severity."""

    severity: Severity
    what: str
    evidence: str
    section: str
    weight: float = 0.0
