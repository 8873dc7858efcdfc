"""What became of the rows of a manifest, in numbers."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from euterpe.analytics.batch.problems import Totals
from euterpe.analytics.batch.submission import Taken
from euterpe.client import ClientError


@dataclass
class Tally:
    totals: Totals
    accepted: int = 0
    already_there: int = 0
    refused: Counter[str] = field(default_factory=Counter)  # by the code of the answer

    @property
    def told(self) -> int:
        return self.accepted + self.already_there + self.refused.total()

    def count(self, outcome: Taken | ClientError) -> None:
        if isinstance(outcome, ClientError):
            self.refused[outcome.code] += 1
        elif outcome.was_there:
            self.already_there += 1
        else:
            self.accepted += 1

    def document(self) -> dict[str, Any]:
        checked = {"rows": self.totals.rows, "bad": self.totals.bad, "duplicates": self.totals.duplicates}
        sent = {"accepted": self.accepted, "already_there": self.already_there}
        return {**checked, **sent, "refused": self.refused.total()}

    def shortfall(self, halt: ClientError | None) -> str | None:
        """What was not accepted, and what to do about it."""
        if halt is not None:
            done = f"stopped after {self.told} of {self.totals.good} rows"
            return f"{done}: {halt}; the same command goes on from there"
        if self.refused:
            reasons = ", ".join(f"{count} × {code}" for code, count in self.refused.most_common())
            return f"the service refused {self.refused.total()} rows: {reasons}"
        if self.totals.bad:
            return f"{self.totals.bad} bad rows were left out"
        return None


def unfit(totals: Totals, *, skip_bad: bool) -> str | None:
    """Why nothing is to be submitted."""
    if not totals.rows:
        return "the manifest has no rows"
    if totals.bad and not skip_bad:
        return f"nothing was submitted: mend the {totals.bad} bad rows, or leave them out with --skip-bad"
    return None
