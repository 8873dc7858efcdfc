"""Regenerate the parts of the docs between `<!-- generated -->` markers. ci/diagrams runs this module."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Set
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from ci import error_tables, output_tables
from euterpe.analytics.marts import TABLES
from euterpe.analytics.schema import Table
from euterpe.analytics.tables import FACTS, HISTORY
from euterpe.domain.documents import (
    EventDocument,
    OutputDocument,
    QualityDocument,
    RefreshDocument,
    RenditionDocument,
    StatusDocument,
)
from euterpe.domain.json_schema import object_schema
from euterpe.domain.retry import DeliverySchedule
from euterpe.domain.states import (
    JOB_TRANSITIONS,
    OUTBOX_TRANSITIONS,
    QUEUE_JOB_TRANSITIONS,
    JobStatus,
    OutboxStatus,
    QueueJobStatus,
)
from euterpe.domain.units import format_duration, format_seconds
from euterpe.settings import Settings

_DOCS = Path(__file__).parents[1] / "docs"
PAGE, ANALYTICS = _DOCS / "states.md", _DOCS / "analytics.md"
PAGES = (PAGE, ANALYTICS, _DOCS / "errors.md", _DOCS / "integrate.md", _DOCS / "operate.md")
_MAX_ATTEMPTS = int(Settings.model_fields["outbox_max_attempts"].default)
_BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_State = TypeVar("_State", bound=StrEnum)


def diagram(edges: Mapping[_State, Set[_State]], begins: Iterable[_State]) -> str:
    """Return a state machine as a mermaid diagram. A state without outgoing edges gets an edge to `[*]`."""
    lines = ["```mermaid", "stateDiagram-v2", *(f"    [*] --> {state}" for state in begins)]
    for source, targets in edges.items():
        # List the targets in the order of the states, because a set has no order.
        lines += [f"    {source} --> {target}" for target in edges if target in targets]
        if not targets:
            lines.append(f"    {source} --> [*]")
    return "\n".join([*lines, "```", ""])


def definitions(tables: Iterable[Table]) -> str:
    """Return a markdown section for each table, with the meaning of each column."""
    lines = []
    for table in tables:
        key = ", ".join(f"`{name}`" for name in table.key)
        rows = f"Key: {key}." if len(table.key) == 1 else f"One row for each ({key})."
        lines += ["", f"### {table.name}", "", f"{table.meaning} {rows}", ""]
        lines += ["| column | type | meaning |", "| --- | --- | --- |"]
        lines += [f"| `{c.name}` | {c.type} | {c.meaning.replace('|', '/')} |" for c in table.columns]
    return "\n".join([*lines[1:], "", ""])


def fields_table(document: type) -> str:
    """Return a markdown table of the fields of a document that users see."""
    lines = ["| field | type | meaning |", "| --- | --- | --- |"]
    for name, schema in object_schema(document)["properties"].items():
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        lines.append(f"| `{name}` | {' or '.join(types)} | {schema['description']} |")
    return "\n".join([*lines, ""])


def retries(max_attempts: int) -> str:
    """Return a markdown table of delivery attempts: the pause before each attempt, and the total time."""
    lines = [
        "| attempt | delay after the previous attempt | earliest time after the first attempt |",
        "| --- | --- | --- |",
        "| 1 | | |",
    ]
    passed_ms = 0
    for attempt, pause_ms in enumerate(DeliverySchedule().pauses_ms(max_attempts), start=2):
        passed_ms += pause_ms
        lines.append(f"| {attempt} | {format_duration(pause_ms)} | {format_seconds(passed_ms / 1000)} |")
    return "\n".join([*lines, ""])


_GENERATED: Mapping[str, Callable[[], str]] = {
    "jobs": lambda: diagram(JOB_TRANSITIONS, [JobStatus.QUEUED]),
    "events": lambda: diagram(OUTBOX_TRANSITIONS, [OutboxStatus.PENDING, OutboxStatus.SKIPPED]),
    "queue_jobs": lambda: diagram(QUEUE_JOB_TRANSITIONS, [QueueJobStatus.QUEUED]),
    "status": lambda: fields_table(StatusDocument),
    "outputs": lambda: fields_table(OutputDocument),
    "renditions": lambda: fields_table(RenditionDocument),
    "quality": lambda: fields_table(QualityDocument),
    "event": lambda: fields_table(EventDocument),
    "refresh": lambda: fields_table(RefreshDocument),
    "profiles": output_tables.profiles,
    "common_fields": output_tables.common_fields,
    "adaptive_fields": output_tables.adaptive_fields,
    "file_fields": output_tables.file_fields,
    "audio_fields": output_tables.audio_fields,
    "picture_fields": output_tables.picture_fields,
    "retries": lambda: retries(_MAX_ATTEMPTS),
    "job_errors": error_tables.job_errors,
    "delivery_errors": error_tables.delivery_errors,
    "receiver_errors": error_tables.receiver_errors,
    "client_errors": error_tables.client_errors,
    "problems": error_tables.problems,
    "release_reasons": error_tables.release_reasons,
    "lake": lambda: definitions(HISTORY.values()),
    "facts": lambda: definitions(FACTS.values()),
    "marts": lambda: definitions(TABLES.values()),
}


def rewritten(page: str) -> str:
    """Return the page with its generated blocks replaced."""
    return _BLOCK.sub(lambda block: f"{block[1]}{_GENERATED[block[2]]()}{block[3]}", page)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(rewritten(page.read_text()))
