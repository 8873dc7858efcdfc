from euterpe.analytics.marts import costs
from tests.analytics.report.sample import empty, results

ROW = {"requester": "acme", "profile": "av1", "jobs": 4, "cpu_hours": 100.0, "wasted_cpu_hours": 10.0}
ROWS = [
    {**ROW, "gib_out": 80.0, "output_minutes": 60.0, "cost": 11.2, "wasted_cost": 0.4},
    {**ROW, "requester": "bolt", "gib_out": 0.0, "output_minutes": 0.0, "cost": 4.0, "wasted_cost": 0.4},
]


def test_the_cost_names_its_causer_its_waste_and_its_prices() -> None:
    assert costs.section(results(costs=ROWS)).answer == (
        "USD 15.20 for 8 jobs, USD 8.00 of it for processor time. acme caused 73.7 %; USD 0.80 (5.3 %) "
        "is processor time of attempts that did not succeed. Computed with USD 0.04 for an hour of "
        "processor time, 0 for a GiB read and 0.09 for a GiB written."
    )


def test_how_much_of_the_sum_is_estimated_is_said() -> None:
    rows = [{**row, "estimated_hours": 5.0, "wasted_estimated_hours": 4.0} for row in ROWS]
    section = costs.section(results(costs=rows))
    assert (
        "10 of 200 processor hours (5 %) are estimated: some attempts, such as killed ones, have no "
        "measurement. For these, the time that they held a slot is counted, which is too little if an encode "
        "keeps several processors busy. 40 % of the waste is estimated in this way."
    ) in section.answer
    assert ">5 %<" in section.evidence


def test_a_table_ends_with_the_sum_of_all() -> None:
    foot = costs.section(results(costs=ROWS)).evidence.split("<tfoot>")[1].split("</tfoot>")[0]
    assert ">all<" in foot
    assert ">USD 15.20<" in foot
    assert ">100 %<" in foot


def test_a_requester_without_output_has_no_price_of_a_minute() -> None:
    bolt = costs.section(results(costs=ROWS)).evidence.split('<th scope="row">bolt</th>')[1].split("</tr>")[0]
    assert bolt.endswith(">\N{EN DASH}</td>")


def test_without_costs_the_prices_are_said_all_the_same() -> None:
    assert costs.section(empty()).answer.startswith("Computed with USD 0.04")
