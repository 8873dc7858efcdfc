from datetime import timedelta
from typing import Any

import pytest

from euterpe.analytics.marts import capacity
from euterpe.analytics.report.page import render
from tests.analytics.report.reading import Page
from tests.analytics.report.sample import UNTIL, empty, month, results

QUEUE = {
    **{
        "queue": "bulk",
        "arrivals_per_hour": 4.0,
        "service_seconds": 2_080.0,
        "load": 2.3,
        "weekly_growth": -0.02,
    },
    **{
        "forecast_load": 2.1,
        "slots_now": 4,
        "slots_needed": 6,
        "p95_wait_seconds": 22.0,
        "model": "M/G/c, one line",
    },
}


def worked(days_ago: int, busy_hours: float) -> dict[str, Any]:
    day = UNTIL.date() - timedelta(days=days_ago)
    return {
        "day": day,
        "worker_id": "w",
        "busy_seconds": busy_hours * 3600,
        "present_seconds": 3600.0,
        "peak_busy": 2,
    }


def test_the_answer_says_how_busy_and_how_many() -> None:
    assert capacity.section(results(capacity=[QUEUE], utilisation=[worked(1, 36), worked(0, 12)])).answer == (
        "Slots busy on average, over all hours of 2 days: 1. In 30 days, 6 slots would keep 95 % of the "
        "waits in each queue's busiest hour within 1 min, if the queues share no slots."
    )


def test_a_forecast_that_the_measured_waits_contradict_is_marked() -> None:
    wrong = {**QUEUE, **SEEN, "p95_model_seconds": 0.0, "model_gap": 61.0}
    made = results(capacity=[wrong, {**QUEUE, **SEEN, "queue": "default"}])
    assert capacity.section(made).answer.endswith(
        "Do not trust this forecast for bulk: there, the model and the measured waits differ by more than a "
        "factor of 3."
    )
    assert "the model disagrees with what was seen" in Page(render(made)).words
    assert "the model disagrees" not in Page(render(results(capacity=[{**QUEUE, **SEEN}]))).words


def test_the_forecast_is_a_sentence_with_its_assumptions() -> None:
    evidence = capacity.section(results(capacity=[QUEUE])).evidence
    assert (
        "bulk: the busiest hour brought 4 jobs of 34 min 40 s each, which keep 2.3 slots busy; "
        "shrinking 2 % a week, that becomes 2.1. It takes 6 slots (4 were seen in use), "
        "and then 95 % would wait at most 22 s."
    ) in evidence
    assert "The model: M/G/c, one line." in evidence
    assert "without end" in evidence  # the predicted wait with the present number of slots


SEEN = {
    **{"p50_waited_seconds": 2.0, "p95_waited_seconds": 30.0, "still_waiting": 3, "p50_busiest_seconds": 5.0},
    **{
        "p95_busiest_seconds": 60.0,
        "p50_model_seconds": 0.0,
        "p95_model_seconds": 40.0,
        "model_gap": 61 / 41,
    },
}


def test_the_waiting_that_was_seen_stands_beside_that_of_the_model() -> None:
    evidence = capacity.section(results(capacity=[{**QUEUE, **SEEN}])).evidence
    assert (
        "In that hour 95 % really waited at most 1 min; the model says that the wait was at most 40 s."
        in evidence
    )
    row = evidence.split("<caption>Waiting: seen and modelled")[1].split("<tbody>")[1].split("</tbody>")[0]
    assert [
        cell for cell in ("2 s", "30 s", "3", "5 s", "1 min", "0 s", "40 s") if f">{cell}<" not in row
    ] == []
    assert '<span class="badge good">agrees</span>' in row


@pytest.mark.parametrize(
    "model", [{"p95_model_seconds": 2.0, "model_gap": 61 / 3}, {"p95_model_seconds": None, "model_gap": None}]
)
def test_a_model_that_is_far_from_what_was_seen_is_said_to_disagree_and_why(model: dict[str, Any]) -> None:
    evidence = capacity.section(results(capacity=[{**QUEUE, **SEEN, **model}])).evidence
    assert '<span class="badge warning">disagrees</span>' in evidence
    assert "do not trust its forecast for this queue" in evidence
    assert "more than 3× apart" in evidence
    assert "priorities, fair shares, limits of groups and requesters, paused queues" in evidence


def test_the_same_model_of_several_queues_is_explained_once() -> None:
    assert capacity.section(month()).evidence.count("The model:") == 1


def test_a_queue_with_too_few_jobs_has_no_forecast() -> None:
    assert (
        "q: too few jobs have run for a forecast."
        in capacity.section(results(capacity=[{"queue": "q"}])).evidence
    )


def test_a_day_on_which_nobody_worked_is_idle_and_its_slots_are_unknown() -> None:
    evidence = capacity.section(results(utilisation=[worked(2, 24), worked(0, 12)])).evidence
    assert "15 Nov 2026: 0 jobs at once<" in evidence
    assert "16 Nov 2026: 0.5 jobs at once, 2 slots<" in evidence


def test_nothing_run_is_said() -> None:
    assert capacity.section(empty()).answer == "Nothing has run yet."
