from typing import Any

from euterpe.analytics.report.results import Row, top_n, total


def fold(rows: Any) -> dict[str, Any]:
    return total(rows, ("jobs",))


def make_rows(count: int) -> list[Row]:
    return [{"name": f"n{n:03}", "jobs": n} for n in range(count)]


def test_the_largest_stand_alone_and_the_rest_together() -> None:
    rows = top_n(make_rows(500), "name", "jobs", fold)
    assert len(rows) == 21
    assert rows[0] == {"name": "n499", "jobs": 499}
    assert rows[-1] == {"name": "480 others", "jobs": sum(range(480))}


def test_nothing_is_lost() -> None:
    assert fold(top_n(make_rows(500), "name", "jobs", fold)) == fold(make_rows(500))


def test_one_other_is_not_hidden_behind_a_number() -> None:
    assert [row["name"] for row in top_n(make_rows(21), "name", "jobs", fold)][-1] == "n000"


def test_ties_are_in_order_of_their_names() -> None:
    rows: list[Row] = [{"name": name, "jobs": 1} for name in "cab"]
    assert [row["name"] for row in top_n(rows, "name", "jobs", fold)] == ["a", "b", "c"]
