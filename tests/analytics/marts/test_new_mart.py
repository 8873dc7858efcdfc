"""A new mart needs one module and one entry in `MARTS`. Everything else is derived from `MARTS`."""

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ci.diagrams import definitions
from euterpe.analytics import marts
from euterpe.analytics.facts import Facts, shaped
from euterpe.analytics.marts import MARTS
from euterpe.analytics.marts.mart import Mart
from euterpe.analytics.options import Options
from euterpe.analytics.pipeline import to_json
from euterpe.analytics.report import words
from euterpe.analytics.report.blocks import Finding, Section, Severity, counted, table
from euterpe.analytics.report.findings import findings
from euterpe.analytics.report.page import render
from euterpe.analytics.report.results import Results
from euterpe.analytics.schema import Table, columns
from tests.analytics.marts.rows import facts_of
from tests.analytics.report.reading import Page
from tests.analytics.report.sample import month

# The module of a new mart would contain the following names.
TABLE = Table(
    "priorities",
    "Show how many jobs have which priority.",
    ("priority",),
    columns("""
        priority int The priority of the jobs.
        jobs long Jobs with this priority.
    """),
)


def make(facts: Facts, _: Options) -> DataFrame:
    return shaped(facts.jobs.groupBy(*TABLE.key).agg(F.count("*").alias("jobs")), TABLE)


def section(results: Results) -> Section:
    rows = results.rows(TABLE.name)
    cells = [(str(row["priority"]), counted(row["jobs"])) for row in rows]
    answer = f"{len(rows)} priorities are in use."
    return Section("priorities", "What is urgent?", answer, table("Priorities", TABLE.names, cells), (TABLE,))


def urgent(results: Results) -> Iterator[Finding]:
    for row in results.rows(TABLE.name):
        if row["priority"] == 100:
            yield Finding(
                Severity.bad, "Some jobs are urgent.", words.quantity(row["jobs"], "job"), "priorities", 9.0
            )


MART = Mart(TABLE, make, section, (urgent,))


def test_a_new_mart_is_one_entry_of_the_tuple(spark: SparkSession) -> None:
    jobs = [{"priority": 100}, {"priority": 100}, {"priority": 10}]
    made = MART.make(facts_of(spark, jobs=jobs), Options()).toArrow()
    results = replace(month(), marts={**month().marts, TABLE.name: made})
    known = (*MARTS, MART)
    page = Page(render(results, known)).words
    assert "What is urgent? 2 priorities are in use." in page
    assert "Jobs with this priority." in page
    document = json.loads(to_json(results, known))
    assert [column["name"] for column in document["marts"]["priorities"]["columns"]] == ["priority", "jobs"]
    assert findings(results, known)[0].what == document["findings"][0]["what"] == "Some jobs are urgent."
    assert "| `priority` | int | The priority of the jobs. |" in definitions(m.table for m in known)


def test_every_module_with_a_mart_is_in_the_tuple_once() -> None:
    modules = [import_module(f"{marts.__name__}.{found.name}") for found in iter_modules(marts.__path__)]
    declared = [module.MART for module in modules if hasattr(module, "MART")]
    assert sorted(mart.table.name for mart in declared) == sorted(mart.table.name for mart in MARTS)
    assert len({mart.table.name for mart in MARTS}) == len(MARTS)


def test_every_mart_is_shown_in_a_section() -> None:
    shown = {table.name for mart in MARTS if mart.section for table in mart.section(month()).tables}
    assert shown == {mart.table.name for mart in MARTS}
