"""A block of a synthetic history: its tables, which depend only on the plan and the block's number."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha256
from itertools import pairwise

import pyarrow as pa
import pytest

from euterpe.analytics.schema import arrow_schema
from euterpe.analytics.tables import HISTORY
from euterpe.synthesize.block import block
from euterpe.synthesize.history_plan import HistoryPlan
from tests.synthesize.made_history import PLAN, UNTIL_MS, blocks, history

SMALL = HistoryPlan(jobs=500, seed=3, until_ms=UNTIL_MS)
KEYS = {"jobs": "job_id", "attempts": "attempt_id", "events": "event_id", "deliveries": "delivery_id"}
INSTANTS = {"jobs": "created_at", "attempts": "started_at", "events": "created_at", "deliveries": "ended_at"}


def digest(plan: HistoryPlan, index: int) -> str:
    found = sha256()
    for table in block(plan, index).values():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        found.update(sink.getvalue())
    return found.hexdigest()


def test_the_same_plan_makes_the_same_bytes_in_any_order_and_any_process() -> None:
    there = [digest(PLAN, index) for index in range(3)]
    assert [digest(PLAN, index) for index in (2, 1, 0)] == there[::-1]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as other:
        assert other.submit(digest, PLAN, 2).result() == there[2]


def test_another_seed_makes_other_rows() -> None:
    one, other = (
        set(block(HistoryPlan(500, seed, UNTIL_MS), 0)["jobs"]["job_id"].to_pylist()) for seed in (3, 4)
    )
    assert not one & other


@pytest.mark.parametrize("table", HISTORY)
def test_the_columns_are_those_of_the_tables(table: str) -> None:
    assert block(SMALL, 0)[table].schema == arrow_schema(HISTORY[table].columns)


@pytest.mark.parametrize("table", HISTORY)
def test_ids_are_unique_and_begin_with_their_instant(table: str) -> None:
    found = history(PLAN, table)
    ids = [row[KEYS[table]] for row in found]
    assert len(set(ids)) == len(ids)
    assert all(int(i[:8] + i[9:13], 16) == row[INSTANTS[table]] for i, row in zip(ids, found, strict=True))
    assert all(i[14] == "7" and i[19] in "89ab" for i in ids)


def test_each_block_begins_after_the_one_before() -> None:
    instants = [made["jobs"]["created_at"].to_pylist() for made in blocks(PLAN)]
    assert all(before[-1] <= after[0] for before, after in pairwise(instants))
    assert all(own == sorted(own) for own in instants)


@pytest.mark.parametrize("table", HISTORY)
def test_nothing_is_later_than_the_end_or_earlier_than_the_beginning(table: str) -> None:
    instants = [
        value
        for row in history(PLAN, table)
        for name, value in row.items()
        if name.endswith("_at") and value is not None
    ]
    assert PLAN.since_ms <= min(instants)
    assert max(instants) <= PLAN.until_ms


@pytest.mark.parametrize("jobs", range(1, 12))
def test_a_history_may_have_few_jobs(jobs: int) -> None:
    made = block(HistoryPlan(jobs=jobs, seed=jobs, until_ms=UNTIL_MS, requesters=1), 0)
    assert made["jobs"].num_rows == jobs


def test_more_requesters_than_names_have_names_of_their_own() -> None:
    made = block(HistoryPlan(jobs=2_000, seed=1, until_ms=UNTIL_MS, requesters=30), 0)
    assert len(set(made["jobs"]["requester_id"].to_pylist())) == 30
