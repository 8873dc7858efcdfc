"""The generator of ci/diagrams: the state machines as mermaid, between markers in docs/states.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from euterpe.domain.states import JOB_TRANSITIONS, OUTBOX_TRANSITIONS, JobStatus, OutboxStatus

PAGE = Path(__file__).parents[1] / "docs" / "states.md"
_BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_State = TypeVar("_State", bound=StrEnum)


def diagram(edges: Mapping[_State, Set[_State]], begins: Iterable[_State]) -> str:
    """A state without a way out is drawn as an end."""
    lines = ["```mermaid", "stateDiagram-v2", *(f"    [*] --> {state}" for state in begins)]
    for source, targets in edges.items():
        # In the order of the states: a set has none of its own.
        lines += [f"    {source} --> {target}" for target in edges if target in targets]
        if not targets:
            lines.append(f"    {source} --> [*]")
    return "\n".join([*lines, "```", ""])


def rewritten(page: str) -> str:
    """The page with its diagrams drawn anew."""
    drawn = {
        "jobs": diagram(JOB_TRANSITIONS, [JobStatus.QUEUED]),
        "events": diagram(OUTBOX_TRANSITIONS, [OutboxStatus.PENDING, OutboxStatus.SKIPPED]),
    }
    return _BLOCK.sub(lambda block: f"{block[1]}{drawn[block[2]]}{block[3]}", page)


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text()))
