from euterpe.analytics.marts import webhooks
from tests.analytics.report.sample import empty, results

GOOD = {
    **{
        "requester": "a",
        "events": 90,
        "delivered": 90,
        "judged": 90,
        "tries_per_event": 1.0,
        "within_slo": 1.0,
        "meets_slo": True,
    },
    **{"p50_ms": 200.0, "p95_ms": 900.0, "p99_ms": 2_000.0},
}
DEAD = {
    **{
        "requester": "b",
        "events": 12,
        "dead_letter": 10,
        "pending": 2,
        "untried": 1,
        "judged": 10,
        "tries_per_event": 12.0,
    },
    **{"within_slo": 0.0, "meets_slo": False, "worst_error": "timeout"},
}


def test_the_objective_and_who_missed_it_are_said() -> None:
    assert webhooks.section(results(webhooks=[GOOD, DEAD])).answer == (
        "90 % of 100 events arrived within 1 min; 10 were given up, 2 are pending, 1 of them never tried. "
        "What is pending for longer than 1 min counts as missed. "
        "The objective: 99 % of the events of each receiver delivered within 1 min. "
        "1 of 2 receivers missed it."
    )


def test_an_objective_that_is_met_is_said_to_be() -> None:
    assert webhooks.section(results(webhooks=[GOOD])).answer.endswith("It was met.")
    assert webhooks.section(results(webhooks=[GOOD, {**GOOD, "requester": "c"}])).answer.endswith(
        "All 2 met it."
    )


def test_a_receiver_that_took_nothing_is_in_the_table_and_not_in_the_chart() -> None:
    evidence = webhooks.section(results(webhooks=[GOOD, DEAD])).evidence
    chart, table = evidence.split("<table>")
    assert ">a</text>" in chart
    assert ">b</text>" not in chart
    assert '<span class="badge bad">missed</span>' in table
    assert "timeout" in table


def test_all_together_are_counted_and_have_no_percentiles() -> None:
    foot = webhooks.section(results(webhooks=[GOOD, DEAD])).evidence.split("<tfoot>")[1]
    assert "1 of 2" in foot
    assert foot.count("\N{EN DASH}") == 4
    assert ">2.2<" in foot  # the mean number of tries of the 101 events that were sent


def test_without_events_the_objective_is_said_all_the_same() -> None:
    assert webhooks.section(empty()).answer.startswith("The objective: 99 %")
