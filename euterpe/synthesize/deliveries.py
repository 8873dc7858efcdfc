"""Generate the deliveries of each event: one row per attempt, up to the first success or the last attempt."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from euterpe.analytics.tables import DELIVERIES
from euterpe.domain.retry import DeliverySchedule
from euterpe.synthesize.arrow import ids, instants, numbers, table_of, words
from euterpe.synthesize.customers import NO_RECEIVER, WebhookReceiver, customer, requester_id
from euterpe.synthesize.history_plan import Floats, HistoryPlan, Ints
from euterpe.synthesize.jobs import Bools
from euterpe.synthesize.snapshot import Snapshot
from euterpe.synthesize.timeline import EVENTS

MAX_TRIES = 12
_DEADLINE_MS = 10_000
_SCHEDULE = DeliverySchedule()
# The pause before each attempt, which is 0 before the first attempt.
_PAUSES_MS = np.array([0, *_SCHEDULE.pauses_ms(MAX_TRIES)])
_DISPATCHERS = ("dispatcher-1", "dispatcher-2")
_OUTCOMES = ("pending", "dead_letter", "delivered")


class Tries(NamedTuple):
    of: Ints  # the index of the attempt's event in the block
    number: Ints  # counted from 1
    outcome: Ints
    took_ms: Ints
    ended_ms: Ints


def delivery_rows(block: Snapshot, rng: np.random.Generator) -> pa.Table:
    """Return the deliveries that end before the end of the history."""
    plan, events = block.plan, block.events
    receivers = [customer(number).receiver or NO_RECEIVER for number in range(plan.requesters)]
    tries = _draw_tries(block, receivers, rng)
    tries = Tries(*(column[tries.ended_ms <= plan.until_ms] for column in tries))
    who, delivered = events["requester"][tries.of], tries.outcome == _OUTCOMES.index("delivered")
    status = np.where(delivered, 200, np.array([one.status for one in receivers])[who])
    return table_of(
        DELIVERIES,
        {
            "delivery_id": ids(tries.ended_ms, tries.number, rng),
            "event_id": block.event_ids.take(pa.array(tries.of)),
            "job_id": block.job_ids.take(pa.array(events["job"][tries.of])),
            "requester_id": words([requester_id(number) for number in range(plan.requesters)], who),
            "claim_version": tries.number,
            "worker_id": words(_DISPATCHERS, rng.integers(0, len(_DISPATCHERS), len(who))),
            "outcome": words(_OUTCOMES, tries.outcome),
            "status_code": numbers(status, status > 0).cast("int32"),
            "error_code": words([one.code for one in receivers], who, ~delivered),
            "duration_ms": tries.took_ms,
            "ended_at": instants(tries.ended_ms),
        },
    )


def _draw_tries(block: Snapshot, receivers: list[WebhookReceiver], rng: np.random.Generator) -> Tries:
    """Draw all attempts of each wanted event, including the attempts after the end of the history."""
    events = block.events
    subscribed = np.flatnonzero(wanted(block.plan)[events["requester"], events["kind"]])
    failing = np.array([one.failing for one in receivers])[events["requester"][subscribed]]
    # `needed` is the number of the attempt that would succeed. For a receiver that always fails, `needed` is
    # one above the limit, so that every attempt up to the limit fails.
    needed = np.where(failing < 1, rng.geometric(np.maximum(1 - failing, 1e-9)), MAX_TRIES + 1)
    tries = np.minimum(needed, MAX_TRIES)
    of = np.repeat(subscribed, tries)
    number = np.arange(len(of)) - np.repeat(np.cumsum(tries) - tries, tries) + 1
    is_last = number == np.repeat(tries, tries)
    outcome = is_last * np.repeat(np.where(needed > MAX_TRIES, 1, 2), tries)
    took = _took(receivers, events["requester"][of], outcome == 2, rng)
    return Tries(of, number, outcome, took, events["at_ms"][of] + _since(tries, _waited(number, rng) + took))


def wanted(plan: HistoryPlan) -> Bools:
    """Return a matrix of booleans: whether a requester (row) gets events of a kind (column)."""
    of = [customer(number) for number in range(plan.requesters)]
    return np.array([[one.wants(name) for name in EVENTS] for one in of])


def _waited(number: Ints, rng: np.random.Generator) -> Ints:
    """Return the wait before each attempt: the dispatcher's latency, and the pause after a failed attempt."""
    pause: Floats = _PAUSES_MS[number - 1] * rng.uniform(1, 1 + _SCHEDULE.jitter, len(number))
    return rng.integers(10, 1_500, len(number)) + pause.astype(np.int64)


def _took(receivers: list[WebhookReceiver], who: Ints, delivered: Bools, rng: np.random.Generator) -> Ints:
    median = np.array([one.median_ms for one in receivers])[who]
    usual = np.minimum(rng.lognormal(np.log(median), 0.5), _DEADLINE_MS - 1)
    silent = np.array([one.code == "egress_timeout" for one in receivers])[who]
    return np.where(silent & ~delivered, _DEADLINE_MS, usual).astype(np.int64)


def _since(tries: Ints, took: Ints) -> Ints:
    """Return, for each delivery attempt, the time from the event to the end of the attempt."""
    whole = np.concatenate([[0], np.cumsum(took)])
    return np.asarray(whole[1:] - np.repeat(whole[np.cumsum(tries) - tries], tries))
