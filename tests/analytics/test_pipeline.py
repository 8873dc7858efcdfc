import json
from dataclasses import replace
from math import nan

import pytest

from euterpe.analytics.marts import TABLES
from euterpe.analytics.pipeline import to_json
from euterpe.analytics.report.results import Results
from tests.analytics.report.sample import empty, month, one_job, results


def test_every_mart_is_there_with_what_its_columns_mean() -> None:
    made = month()
    marts = json.loads(to_json(made))["marts"]
    assert list(marts) == list(TABLES)
    for name, mart in marts.items():
        assert len(mart["rows"]) == made.marts[name].num_rows
        assert [column["name"] for column in mart["columns"]] == list(TABLES[name].names)
        assert all(column["meaning"] for column in mart["columns"])


def test_the_document_says_what_it_was_made_for() -> None:
    document = json.loads(to_json(replace(month(), filters={"requester": "acme"})))
    assert document["since"] == "2026-10-19T09:30:00.000Z"
    assert document["filters"] == {"requester": "acme"}
    assert document["prices"]["currency"] == "USD"
    assert document["objective"] == {"within_seconds": 60, "share": 0.99}
    assert document["findings"][0].keys() == {"severity", "what", "evidence", "section", "weight"}
    assert document["findings"][0]["severity"] == "bad"


def test_days_and_instants_are_iso_8601() -> None:
    marts = json.loads(to_json(month()))["marts"]
    assert marts["throughput"]["rows"][0]["day"] == "2026-10-20"
    assert marts["failures"]["rows"][0]["last_seen"] == "2026-11-16T06:30:00.000Z"


def test_what_is_not_known_is_null_and_stays_so() -> None:
    made = results(capacity=[{"queue": "q"}], sizes=[{"profile": "p", "ratio": nan}])
    marts = json.loads(to_json(made), parse_constant=pytest.fail)["marts"]
    assert marts["capacity"]["rows"][0]["slots_needed"] is None
    assert marts["sizes"]["rows"][0]["ratio"] is None


@pytest.mark.parametrize("made", [empty(), one_job()])
def test_a_small_history_is_a_document_too(made: Results) -> None:
    assert json.loads(to_json(made))["findings"]
