"""The style of docstrings and log lines (docs/contributing.md), as far as a script can check it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import euterpe

PACKAGE = Path(euterpe.__file__).parent
# A docstring that opens with one of these words is a fragment: "Of the jobs, those that wait."
FRAGMENTS = frozenset(
    {
        *("of", "what", "where", "as", "by", "with", "without", "whether", "whoever", "how", "so", "until"),
        *("for", "from", "in", "on", "to", "at", "after", "before", "when", "while", "whatever", "who"),
        *("which", "than", "like", "between", "not", "those"),
    }
)
LEVELS = ("debug", "info", "warning", "error", "exception", "critical")
EVENT = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path, ast.parse(path.read_text())


def test_no_docstring_of_a_function_opens_as_a_fragment() -> None:
    found = []
    for path, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                if text and text.split()[0].lower().strip(",.:;") in FRAGMENTS:
                    found.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {text.splitlines()[0]}")
    assert found == []


def test_every_log_event_is_a_name_in_snake_case() -> None:
    found, events = [], 0
    for path, tree in modules():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            logger = node.func.value
            if node.func.attr in LEVELS and isinstance(logger, ast.Name) and logger.id in ("_log", "log"):
                events += 1
                event = node.args[0]
                if not isinstance(event, ast.Constant) or not EVENT.fullmatch(str(event.value)):
                    found.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {ast.unparse(event)}")
    assert events > 50
    assert found == []


def test_every_logger_has_the_name_of_its_module() -> None:
    found = [
        str(path.relative_to(PACKAGE))
        for path, _ in modules()
        if re.search(r"get_logger\((?!__name__\))", path.read_text())
    ]
    assert found == []
