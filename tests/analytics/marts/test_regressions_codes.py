"""Every error code of a job is classified: an encoder version can cause it, or cannot."""

from pathlib import Path

from euterpe.analytics.marts.regressions import ENCODER_CODES, ENCODER_PHASE, OTHER_CODES
from euterpe.domain.states import JobStatus

_PAGE = (Path(__file__).parents[3] / "docs" / "errors.md").read_text()
_JOBS = _PAGE.partition("\n## Of jobs\n")[2].partition("\n## ")[0]
_ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in _JOBS.splitlines()
    if line.startswith("| `")
]


def test_every_code_of_a_job_is_classified_once() -> None:
    known = {row[0].strip("`") for row in _ROWS}
    assert len(known) > 30
    assert known == ENCODER_CODES | OTHER_CODES
    assert not ENCODER_CODES & OTHER_CODES


def test_each_code_of_the_encoder_can_be_met_while_ffmpeg_runs() -> None:
    assert ENCODER_PHASE == JobStatus.PROCESSING
    phases = {row[0].strip("`"): row[2] for row in _ROWS}
    for code in ENCODER_CODES:
        assert "processing" in phases[code] or phases[code] == "any", code
