"""Test that the docs agree with the code: names, links, commands, settings, diagrams and the example."""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, get_args

import pytest
from pydantic import BaseModel, SecretStr
from typer.main import get_command

from ci import diagrams
from euterpe.cli.app import app
from euterpe.domain.codecs import CODECS
from euterpe.domain.outputs import OutputSpec, PictureOutput
from euterpe.domain.profiles import built_in_profiles, with_operator_profiles
from euterpe.domain.spec import parse_spec
from euterpe.domain.states import Lane
from euterpe.domain.units import format_duration
from euterpe.media.encoding.expected import expected_files
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tree import Plan
from euterpe.media.source.media_info import MediaInfo, StreamInfo
from euterpe.media.whitelist import CONTAINERS
from euterpe.runtime.installation import DISTRIBUTION
from euterpe.settings import load
from euterpe.wiring.storage_profiles import load_storage_profiles
from tests.cli.command_runner import Cli, capturing
from tests.service.clips import make_clip
from tests.service.installation import Program

ROOT = Path(__file__).parents[1]
README, OPERATE, CONTRACT = ROOT / "README.md", ROOT / "docs" / "operate.md", ROOT / "docs" / "contract.md"
INTEGRATE = ROOT / "docs" / "integrate.md"
(MODELS,) = [part for part in get_args(OutputSpec) if isinstance(part, UnionType)]
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
RECORDS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
INVARIANTS = (
    "valid-transitions",
    "one-owner",
    "fenced-writes",
    "event-per-transition",
    "terminal-forever",
    "no-lease-at-rest",
    "budget",
    "accepted-is-durable",
    "same-key-same-job",
    "plaintext-nowhere",
)

_TEST = re.compile(r"\b(tests/[\w/]+\.py)::(\w+)")
_PATH = re.compile(r"`((?:euterpe|ci|tests|docs|migrations_\w+|\.ci)/[\w./]*)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def blocks(page: Path, language: str) -> list[str]:
    return [code for name, code in _FENCE.findall(page.read_text()) if name == language]


def rows(page: Path, first_cell: str) -> Iterator[list[str]]:
    """Yield the cells of every table row whose first cell matches."""
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells and re.fullmatch(first_cell, cells[0]):
            yield cells


@cache
def names_in(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Return the command line in an empty directory, with no settings."""
    for name in [name for name in os.environ if name.startswith("EUTERPE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return capturing(capsys)


# -- names in the docs exist


@every_page
def test_every_test_that_is_named_exists(page: Path) -> None:
    for file, name in _TEST.findall(page.read_text()):
        assert (ROOT / file).is_file(), file
        assert name in names_in(ROOT / file), f"{file}::{name}"


@every_page
def test_every_file_that_is_named_exists(page: Path) -> None:
    for path in _PATH.findall(page.read_text()):
        made_by_the_bench = re.fullmatch(r"docs/benchmarks(-\w+)?\.md", path)
        assert made_by_the_bench or (ROOT / path).exists(), path


@every_page
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in _LINK.findall(page.read_text()):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@every_page
def test_every_command_that_is_shown_exists(page: Path) -> None:
    text = page.read_text()
    for words in [*shell_commands(page), *_commands(re.findall(r"`([^`\n]+)`", _FENCE.sub("", text)))]:
        command: Any = get_command(app)
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        named = [word for word in words if not word.startswith("--") and word != "COMMAND"]
        assert not (named and hasattr(command, "commands")), f"{command.name} has no command {named}"
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        assert {word for word in words if word.startswith("--")} <= known, f"{command.name} {words}"


def shell_commands(page: Path) -> list[list[str]]:
    """Return the commands in the shell examples of a page."""
    return _commands(line for code in blocks(page, "sh") for line in code.splitlines())


def _commands(lines: Iterable[str]) -> list[list[str]]:
    """Return the words after `euterpe` of each command."""
    found = [shlex.split(line, comments=True) for line in lines if line.strip().startswith("euterpe ")]
    return [words[1:] for words in found]


# -- generated and repeated text agrees with its source


def test_generated_text_is_what_the_generator_writes() -> None:
    for page in diagrams.PAGES:
        assert page.read_text() == diagrams.rewritten(page.read_text()), "run ci/diagrams"
    assert len(blocks(diagrams.PAGE, "mermaid")) == 3


@pytest.mark.parametrize(
    ("table", "migration", "column"),
    [("inbox", "0005_fair_share", 1), ("outbox", "0001_core", 2), ("queue_jobs", "0013_queue_jobs", 3)],
)
def test_the_table_of_lanes_is_that_of_the_migrations(table: str, migration: str, column: int) -> None:
    sql = (ROOT / "migrations_pg" / f"{migration}.sql").read_text()
    check = sql.partition(f"CONSTRAINT {table}_lane CHECK")[2].partition("ELSE FALSE")[0]
    allowed = {
        (status, lane)
        for lane, statuses in re.findall(r"WHEN '(\w+)' THEN(.*?)(?=WHEN|\Z)", check, re.DOTALL)
        for status in re.findall(r"status = '(\w+)'", statuses)
    }
    shown = {
        (status, cells[0].strip("`"))
        for cells in rows(diagrams.PAGE, f"`({'|'.join(Lane)})`")
        for status in re.findall(r"`(\w+)`", cells[column])
    }
    assert shown == allowed


@pytest.mark.usefixtures("cli")
def test_the_settings_table_is_that_of_the_settings() -> None:
    shown = {cells[0]: cells[1] for cells in rows(OPERATE, r"`EUTERPE_\w+`")}
    defaults = {f"`EUTERPE_{name.upper()}`": shown_default(value) for name, value in load()}
    assert shown.pop("`EUTERPE_WORKER_SLOTS`") == "half of the cores, at least 1"
    assert defaults.pop("`EUTERPE_WORKER_SLOTS`") == f"`{max(1, (os.cpu_count() or 1) // 2)}`"
    assert list(shown.items()) == list(defaults.items())


def shown_default(value: object) -> str:
    shown = value.get_secret_value() if isinstance(value, SecretStr) else value
    if shown is None:
        return "not set"
    if shown == {}:
        return "none"
    if isinstance(shown, tuple):
        words = [format_duration(part) if isinstance(part, int) else part for part in shown]
        return f"`{','.join(words)}`" if words else "none"
    return f"`{shown}`"


def test_the_extras_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    shown = [cells[0] for cells in rows(OPERATE, r"`euterpe-transcode\[\w+\]`")]
    assert project["name"] == DISTRIBUTION == "euterpe-transcode"
    assert shown == [f"`{DISTRIBUTION}[{extra}]`" for extra in project["optional-dependencies"]]


@every_page
def test_every_install_line_names_extras_of_this_distribution(page: Path) -> None:
    """On the package index, the name `euterpe` belongs to another project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for line in re.findall(r"\bpip install\s+([^`#\n]+)", page.read_text()):
        (wanted,) = [word for word in shlex.split(line) if not word.startswith("-")]
        named = re.fullmatch(r"(\.|/path/to/euterpe|[\w.-]+\.whl|euterpe-transcode)\[([\w,]+)\]", wanted)
        assert named, line
        assert set(named[2].split(",")) - {"EXTRA"} <= set(project["optional-dependencies"]), line


# -- the README says what Euterpe can make, and what it cannot


def own_fields(model: type[BaseModel]) -> list[str]:
    """Return the names of the fields that this type of output adds to the fields of `PictureOutput`."""
    return [name for name in model.model_fields if name not in PictureOutput.model_fields]


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def section(page: Path, title: str) -> str:
    return page.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_table_of_outputs_is_that_of_the_domain() -> None:
    models = {get_args(model.model_fields["type"].annotation)[0]: model for model in get_args(MODELS)}
    shown = [
        (words(name), words(codecs), words(fields))
        for name, _, codecs, fields in rows(README, rf"`({'|'.join(models)})`")
    ]
    expected = [
        ([name], [codec.name for codec in CODECS.values() if name in codec.outputs], own_fields(model))
        for name, model in models.items()
    ]
    assert shown == expected
    common = section(README, "What it can make").partition("Every output can")[2].partition("`video`")[0]
    assert ["name", "type", *words(common)] == list(PictureOutput.model_fields)


def test_what_the_readme_says_of_profiles_and_sources_is_true() -> None:
    text = section(README, "What it can make")
    count, _, names = text.partition("A job names one of ")[2].partition("or it lists")[0].partition("\n")
    assert int(count) == len(built_in_profiles())
    assert set(words(names)) <= set(built_in_profiles())
    assert words(text.partition("**Sources**")[2]) == list(CONTAINERS)


def test_the_examples_of_outputs_are_valid_and_name_every_kind() -> None:
    examples = [code for code in blocks(INTEGRATE, "json") if '"outputs": [' in code and "s3://in" in code]
    assert len(examples) == 2
    made = [output for example in examples for output in parse_spec(json.loads(example)).outputs or ()]
    kinds = {"hls", "adaptive", "mp4", "m4a", "mp3", "image", "sprite", "preview"}
    assert {output.type for output in made} >= kinds


def test_the_example_of_a_profile_is_one() -> None:
    example, _ = blocks(OPERATE, "toml")
    profiles = with_operator_profiles({"newsroom-web.toml": example.encode()})
    assert [output.type for output in profiles["newsroom-web"].outputs] == ["mp4", "image"]


def test_the_example_of_a_storage_profile_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, example = blocks(OPERATE, "toml")
    (tmp_path / "euterpe.toml").write_text(example)
    monkeypatch.chdir(tmp_path)
    profiles = load_storage_profiles(load(), {"MAIN_KEY": "AKIA", "MAIN_SECRET": "s3cret"})
    assert profiles["main"].requesters == {"newsroom"}


def test_what_the_readme_says_cannot_be_made_is_refused() -> None:
    first = section(README, "What it cannot make yet").partition("\n- S")[0]
    known = {kind for codec in CODECS.values() for kind in codec.outputs} | CODECS.keys()
    assert len(words(first)) == 10
    assert not known & set(words(first))


def test_the_example_of_outputs_makes_the_files_that_are_listed() -> None:
    (example,) = [code for code in blocks(INTEGRATE, "json") if '"type": "hls"' in code]
    spec = parse_spec(json.loads(example))
    assert spec.outputs is not None
    film = StreamInfo(0, "video", "h264", 20.0, width=1920, height=1080, fps=25.0)
    sound = StreamInfo(1, "audio", "aac", 20.0, channels=2, sample_rate=48_000)
    made = plan(spec.outputs, MediaInfo("mov", 1000, 20.0, (film, sound)), threads=1)
    listed = (
        INTEGRATE.read_text()
        .partition("Under the output prefix a source of 1080 lines makes")[2]
        .partition("\n\n")[0]
    )
    assert sorted(words(listed)) == sorted(files_without_segments(made))


def files_without_segments(made: Plan) -> Iterator[str]:
    yield from (file.path for file in expected_files(made))
    for package in made.packages:
        yield from (f"{package.output}/{name}.m3u8" for name in ("master", *package.renditions))


def test_the_example_of_source_info_has_the_fields_of_the_product() -> None:
    (example,) = [json.loads(code) for code in blocks(INTEGRATE, "json") if '"pixel_format"' in code]
    kinds = [stream["kind"] for stream in example["streams"]]
    streams = tuple(StreamInfo(index, kind, None) for index, kind in enumerate(kinds))
    made = MediaInfo("mov", 1000, None, streams).document()
    assert example.keys() == made.keys()
    assert [stream.keys() for stream in example["streams"]] == [stream.keys() for stream in made["streams"]]


# -- the pages are complete


@pytest.mark.parametrize("number", range(1, 14))
def test_the_contract_page_has_every_line_and_proves_each(number: int) -> None:
    lines = list(rows(CONTRACT, rf"{number}\.\d+"))
    assert [cells[0] for cells in lines] == [f"{number}.{line + 1}" for line in range(len(lines))]
    assert lines
    for name, _, provided, proved in lines:
        assert provided, name
        assert _TEST.search(proved), f"{name} names no test"


def test_the_contract_of_the_queue_has_every_line_and_proves_each() -> None:
    for number in range(1, 8):
        lines = list(rows(ROOT / "docs" / "contract-queue.md", rf"{number}\.\d+"))
        assert [cells[0] for cells in lines] == [f"{number}.{line + 1}" for line in range(len(lines))]
        assert lines
        assert all(provided and _TEST.search(proved) for _, _, provided, proved in lines)


def test_every_invariant_that_concerns_data_is_guaranteed() -> None:
    shown = list(rows(ROOT / "docs" / "guarantees.md", r"\d+ `[\w-]+`"))
    assert [cells[0] for cells in shown] == [f"{n + 1} `{name}`" for n, name in enumerate(INVARIANTS)]
    assert all(_TEST.search(cells[-1]) for cells in shown)


def test_decisions_are_numbered_and_short() -> None:
    assert [int(record.name[:4]) for record in RECORDS] == list(range(1, len(RECORDS) + 1))
    for record in RECORDS:
        text = record.read_text()
        assert text.startswith(f"# {int(record.name[:4])}. "), record.name
        assert len(text.splitlines()) <= 25, record.name
        assert [part for part in ("Context", "Decision", "Consequences") if f"**{part}.**" not in text] == []


# -- the commands of the README work


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return make_clip(tmp_path / "clip.mp4", seconds=2, size="320x180")


@pytest.mark.usefixtures("clip")
def test_the_readme_works_as_it_is_shown(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: dict[str, str] = {}
    shown = shell_commands(README)
    # This test does not run the command `demo`, because tests/service/test_wheel.py runs it.
    assert [arguments[0] for arguments in shown] == ["demo", "migrate", "requester", "doctor", "submit"]
    for arguments in shown[1:4]:
        ran = cli(*arguments)
        assert ran.code == 0, ran
        keys |= dict(re.findall(r"(api_key) +(eut_\w+)", ran.out))
    environ = {"PATH": os.environ["PATH"], "EUTERPE_STORAGE_ROOTS": str(tmp_path)}
    program = Program(("serve", "--port", "0"), environ, tmp_path)
    try:
        monkeypatch.setenv("EUTERPE_URL", program.address())
        monkeypatch.setenv("EUTERPE_API_KEY", keys["api_key"])
        cli.ok(*shown[4])
        assert (tmp_path / "out" / "mp4.mp4").stat().st_size
        (example,), (printed,) = blocks(README, "python"), blocks(README, "text")
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", example],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.stdout, done.stderr) == (printed, "")
    finally:
        assert program.stop() == 0
