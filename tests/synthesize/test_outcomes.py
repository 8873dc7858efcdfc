"""Synthetic outcomes agree with docs/errors.md."""

from pathlib import Path

import pytest

from euterpe.synthesize.outcomes import ANY, FATES, PHASES, Fate, job_error

PAGE = (Path(__file__).parents[2] / "docs/errors.md").read_text()
ERRORS = [fate for fate in FATES if fate.code != "released"]


def documented(code: str) -> tuple[str, str]:
    """Return the documented phase of a code, and whether it is retried."""
    line = next(line for line in PAGE.splitlines() if line.startswith(f"| `{code}` |"))
    _, _, phase, retried, _ = (cell.strip() for cell in line.strip("|").split("|"))
    return phase, retried


@pytest.mark.parametrize("fate", ERRORS, ids=lambda fate: fate.code)
def test_each_code_is_documented_with_its_phase(fate: Fate) -> None:
    phase, retried = documented(fate.code)
    assert phase == "any" or (fate.phase != ANY and PHASES[fate.phase] in phase)
    assert job_error(fate.code, "processing").document()["retryable"] == retried.startswith("yes")


def test_most_attempts_are_left_to_succeed() -> None:
    assert sum(fate.share for fate in FATES) < 0.1
