"""The findings at the top of the report, and their order."""

from dataclasses import replace
from typing import Any

from euterpe.analytics.marts import MARTS
from euterpe.analytics.report.blocks import Severity
from euterpe.analytics.report.findings import findings
from tests.analytics.report.sample import UNTIL, arrow, empty, month, one_job, results


def ended(jobs: int) -> dict[str, Any]:
    row = {"day": UNTIL.date(), "requester": "acme", "profile": "p", "queue": "q"}
    return {**row, "jobs": jobs, "succeeded": jobs, "output_minutes": 2.0 * jobs}


COST = {"requester": "acme", "profile": "p", "cost": 12.3, "wasted_cost": 0.0}


def test_the_most_important_comes_first_and_there_are_at_most_eight() -> None:
    found = findings(month())
    assert len(found) == 8
    order = [(one.severity, -one.weight) for one in found]
    assert order == sorted(order)
    assert found[0].severity is Severity.bad


def test_every_sentence_has_its_number_and_leads_to_its_section() -> None:
    ids = {mart.section(empty()).id for mart in MARTS if mart.section}
    for found in findings(month()):
        assert any(character.isdigit() for character in found.what + found.evidence)
        assert found.section in ids


def test_nothing_notable_is_said_plainly_with_where_things_stand() -> None:
    found = findings(results(jobs=100, throughput=[ended(100)], costs=[COST]))
    assert [one.what for one in found] == [
        "Nothing stands out.",
        "100 jobs, and 100 % of those that ended succeeded.",
        "All of it cost USD 12.30.",
    ]


def test_a_single_sign_is_joined_by_where_things_stand() -> None:
    made = results(jobs=100, throughput=[ended(100)], costs=[{**COST, "wasted_cost": 6.0}])
    assert [one.severity for one in findings(made)] == [Severity.warning, Severity.fact, Severity.fact]


def test_a_history_too_small_says_so_and_compares_nothing() -> None:
    wasted = {**COST, "wasted_cost": 12.0}
    found = findings(results(jobs=29, throughput=[ended(29)], costs=[wasted]))
    assert found[0].what == "The history is too small to say what changed."
    assert found[0].evidence == "29 jobs ended, and it takes 30"
    assert {one.severity for one in found} == {Severity.fact}


def test_a_history_too_short_says_that_weeks_are_not_compared() -> None:
    found = findings(results(days=5, jobs=100, throughput=[ended(100)]))
    assert (found[1].what, found[1].evidence) == (
        "The history is too short to compare weeks.",
        "5 days of the 14 days that it takes",
    )


def test_an_empty_history_says_one_thing() -> None:
    assert [one.what for one in findings(empty())] == ["There are no jobs yet."]
    filtered = replace(empty(), filters={"since": "2030-01-01"})
    assert [one.what for one in findings(filtered)] == ["No job matches the filters."]


def test_a_job_that_has_not_ended_is_a_small_history() -> None:
    assert [one.what for one in findings(one_job())] == [
        "The history is too small to say what changed.",
        "1 job, and none has ended.",
    ]


def test_webhooks_are_among_where_things_stand() -> None:
    receiver = {"requester": "a", "events": 50, "judged": 50, "within_slo": 1.0, "meets_slo": True}
    found = findings(results(jobs=100, throughput=[ended(100)], webhooks=[receiver]))
    assert found[-1].what == "100 % of the webhooks arrived within 1 min."
    assert found[-1].evidence == "50 events to 1 receiver"


def test_the_order_of_the_rows_does_not_matter() -> None:
    made = month()
    reversed_marts = {name: arrow(name, reversed(table.to_pylist())) for name, table in made.marts.items()}
    assert findings(replace(made, marts=reversed_marts)) == findings(made)
