from euterpe.analytics.marts import speed
from euterpe.analytics.marts.regressions import MEASURED
from euterpe.analytics.report import words
from tests.analytics.report.sample import empty, month, results

SLOW = {"profile": "av1", "ffmpeg": "9.0", "attempts": 5, "factor": 0.4}
FAST = {"profile": "aac", "ffmpeg": "9.0", "attempts": 5, "factor": 60.0}
UNKNOWN = {"profile": "odd", "ffmpeg": "9.0"}
MOVED = {"ffmpeg": "9.0", "baseline": "8.1", "before": 1.0, "after": 0.8, "change": -0.2, "p_value": 0.0001}


def test_the_slowest_is_named_and_drawn_first() -> None:
    section = speed.section(results(speed=[FAST, UNKNOWN, SLOW]))
    assert section.answer == "The slowest is av1 with ffmpeg 9.0: 0.40× real time."
    assert section.evidence.index("av1 · 9.0") < section.evidence.index("aac · 9.0")
    assert "odd · 9.0" not in section.evidence
    assert "odd" in section.evidence


def test_what_became_worse_is_in_the_answer_and_first_in_the_table() -> None:
    same = {**MOVED, "profile": "aac", "measure": "speed", "verdict": "no evidence", "p_value": 0.00001}
    worse = {**MOVED, "profile": "av1", "measure": "speed", "verdict": "worse"}
    section = speed.section(results(regressions=[same, worse]))
    assert section.answer == "Since a new version of ffmpeg: av1 is 20 % slower with ffmpeg 9.0."
    assert section.evidence.index("av1") < section.evidence.index("aac")
    assert '<span class="badge bad">worse</span>' in section.evidence


def test_a_change_of_failures_is_in_points() -> None:
    row = {
        **MOVED,
        "profile": "av1",
        "measure": "failure_rate",
        "before": 0.02,
        "after": 0.041,
        "change": 0.021,
    }
    assert "+2.1 points" in speed.section(results(regressions=[{**row, "verdict": "worse"}])).evidence


def test_no_evidence_is_said_to_be_none() -> None:
    row = {**MOVED, "profile": "av1", "measure": "speed", "verdict": "no evidence"}
    assert speed.section(results(regressions=[row])).answer == (
        "There is no evidence that a new version of ffmpeg made a profile slower or less reliable."
    )


def test_the_page_states_what_the_test_assumes_and_how_often_it_was_wrong() -> None:
    row = {**MOVED, "profile": "av1", "measure": "speed", "verdict": "no evidence"}
    evidence = speed.section(results(regressions=[row])).evidence
    assert "Counted are only failures that a version of ffmpeg can cause" in evidence
    assert "blocks of at least 60 consecutive attempts are independent" in evidence
    assert (
        f"In 1,000 made histories without a change, each with 3 outages of 20 jobs, "
        f"{words.percent(MEASURED.alarms / 1_000)} raised an alarm."
    ) in evidence


def test_versions_with_too_few_attempts_are_not_said_to_be_as_good() -> None:
    row = {**MOVED, "profile": "av1", "measure": "speed", "verdict": "too few", "p_value": None}
    section = speed.section(results(regressions=[row]))
    assert section.answer == (
        "No new version of ffmpeg can be judged yet: it takes 240 attempts with each version."
    )
    assert ">too few<" in section.evidence


def test_nothing_encoded_is_said() -> None:
    assert speed.section(empty()).answer == "Nothing has been encoded yet."
    assert "hevc-1080p is 12 % slower with ffmpeg 9.0.2" in speed.section(month()).answer
