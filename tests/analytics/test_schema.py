"""The declarations of tables: a column that passes unchanged through several stages is declared once."""

from itertools import pairwise

import pytest

from euterpe.analytics.marts import TABLES
from euterpe.analytics.schema import Column, Table, columns
from euterpe.analytics.tables import FACTS, HISTORY

JOBS = Table("jobs", "Jobs.", ("id",), columns("id string The job.\nqueue string Its queue."))


def test_a_name_alone_takes_the_column_of_an_earlier_table_over() -> None:
    made = columns("queue\njobs long How many.", JOBS)
    assert made == (JOBS.columns[1], Column("jobs", "long", "How many."))


def test_a_name_that_no_source_has_is_an_error() -> None:
    with pytest.raises(KeyError, match="lane"):
        columns("lane", JOBS)


def test_a_column_of_several_stages_is_declared_once() -> None:
    """A column that passes from the lake to the facts, or from the facts to the marts, is the same object."""
    stages, passed = (HISTORY, FACTS, TABLES), 0
    for earlier, later in pairwise(stages):
        known = {column: column for table in earlier.values() for column in table.columns}
        identical = {id(column) for table in earlier.values() for column in table.columns}
        for table in later.values():
            again = [c.name for c in table.columns if c in known and id(c) not in identical]
            assert again == [], f"{table.name} declares columns again"
            passed += sum(id(column) in identical for column in table.columns)
    assert passed > 40
