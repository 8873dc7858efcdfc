"""Tests of attempts with optional outputs that cannot be made."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from euterpe.domain.spec import parse_spec
from euterpe.store.store import Store
from euterpe.worker.attempt import Attempt
from euterpe.worker.attempt_control import AttemptControl
from euterpe.worker.tools import Tools
from tests.media.clips import Clips
from tests.worker.planes import claim_leased

POSTER = {"name": "poster", "type": "image", "at": ["0s"]}
FILM = {"name": "film", "type": "mp4", "audio": None}


@pytest.fixture(autouse=True)
def _started(tools: Tools) -> Iterator[None]:
    tools.workdir.open()
    with tools.sandbox:
        yield
    tools.workdir.close()


@pytest.fixture
def damaged_in_the_middle(clips: Clips, tmp_path: Path) -> None:
    """Write `source.mp4` into the folder.

    The first picture of this file can be decoded, but some later pictures cannot.
    """
    film = clips.make("long.mp4").read_bytes()
    first, last = film.index(b"mdat"), film.index(b"moov")
    hole = (first + last) // 2
    (tmp_path / "source.mp4").write_bytes(film[:hole] + bytes(6000) + film[hole + 6000 :])


def run(store: Store, tools: Tools, folder: Path, *outputs: Mapping[str, object]) -> str:
    """Run a job for `source.mp4` in the folder. Return the id of the job."""
    (folder / "out").mkdir()
    spec = {
        "source": {"url": f"file://{folder}/source.mp4"},
        "output": {"url": f"file://{folder}/out/"},
        "outputs": list(outputs),
    }
    job_id = store.submit(parse_spec(spec), "r1").result(timeout=60).job_id
    Attempt(tools, AttemptControl(claim_leased(store), 60)).run()
    return job_id


@pytest.mark.usefixtures("damaged_in_the_middle")
def test_an_optional_output_whose_encode_fails_is_named_and_left_out(
    store: Store, tools: Tools, tmp_path: Path
) -> None:
    """In an earlier version, such a job failed, because the check required the file that was not made."""
    job_id = run(store, tools, tmp_path, POSTER, {**FILM, "optional": True})
    row = store.jobs.get(job_id)
    assert row.status == "succeeded", row.last_error
    assert [output["name"] for output in row.outputs or ()] == ["poster"]
    codes = [(warning["code"], warning["output"]) for warning in row.warnings or ()]
    assert ("output_failed", "film") in codes
    assert sorted(path.name for path in (tmp_path / "out").rglob("*") if path.is_file()) == ["1.jpg"]


@pytest.mark.usefixtures("damaged_in_the_middle")
def test_a_failed_output_that_is_not_optional_fails_the_job(
    store: Store, tools: Tools, tmp_path: Path
) -> None:
    row = store.jobs.get(run(store, tools, tmp_path, POSTER, FILM))
    assert row.status != "succeeded"
    assert row.last_error is not None
    assert row.last_error["code"] == "source_damaged"
