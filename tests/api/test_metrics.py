"""GET /metrics: request counters and the depth of the queues."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from euterpe.api.metrics import Depth
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.retry import JobError
from euterpe.domain.rows import BacklogRow
from euterpe.store.errors import StoreUnavailable
from tests.api.serving import Served
from tests.store.attempts import release
from tests.store.jobs import claim_one


def samples(served: Served) -> dict[tuple[str, ...], float]:
    text = served.anonymous.get("/metrics").text
    families = text_string_to_metric_families(text)
    return {(s.name, *sorted(s.labels.values())): s.value for family in families for s in family.samples}


REQUESTS = "euterpe_http_requests_total"


def test_requests_are_counted_by_route_method_and_status(served: Served) -> None:
    requester = served.requester()
    for _ in range(3):
        requester.submit()
    requester.status("x")
    served.anonymous.get("/nowhere/in/particular")
    seen = samples(served)
    assert seen["euterpe_http_requests_total", "/transcode", "202", "POST"] == 3
    assert seen["euterpe_http_requests_total", "/transcode/status", "404", "GET"] == 1
    assert seen["euterpe_http_requests_total", "404", "GET", "unmatched"] == 1
    assert seen["euterpe_http_request_seconds_count", "/transcode"] == 3


def test_made_up_methods_are_one_series(served: Served) -> None:
    for number in range(5):
        served.anonymous.request(f"BREW{number}", "/transcode")
    served.anonymous.request("PATCH", "/transcode")
    methods = {labels[-1] for labels in samples(served) if labels[:2] == (REQUESTS, "/transcode")}
    assert methods == {"other", "PATCH"}


def test_the_depth_of_every_queue_and_lane_is_shown(on_every_engine: Served) -> None:
    requester = on_every_engine.requester()
    for _ in range(3):
        requester.submit(queue="slow")
    requester.submit(not_before="2200-01-01T00:00:00Z")
    claim_one(on_every_engine.store, queues=["slow"])
    seen = samples(on_every_engine)
    assert seen["euterpe_jobs", "leased", "slow"] == 1
    assert seen["euterpe_jobs", "ready", "slow"] == 2
    assert seen["euterpe_jobs", "default", "delayed"] == 1
    assert seen["euterpe_database_up",] == 1


def test_releases_without_a_charge_are_counted_by_code(served: Served) -> None:
    reason = JobError(ErrorCode.STORAGE_ROOT_MISSING, "this worker has no such folder", "claimed")
    served.requester().submit()
    (job,) = served.store.inbox.claim("w1", 1)
    report = release(job, reason=reason)
    served.store.attempt_ends.end([report])
    served.store.attempt_ends.end([report])
    assert samples(served)["euterpe_releases_total", "storage_root_missing"] == 1, "a replay is no release"


class Backlog:
    def __init__(self) -> None:
        self.queries = 0
        self.rows: list[BacklogRow] | None = [BacklogRow(queue="q", lane="ready", jobs=7)]

    def __call__(self) -> list[BacklogRow]:
        self.queries += 1
        if self.rows is None:
            raise StoreUnavailable("away")
        return self.rows


def collected(depth: Depth) -> dict[tuple[str, ...], float]:
    return {(s.name, *s.labels.values()): s.value for family in depth.collect() for s in family.samples}


def test_scrapes_in_quick_succession_ask_the_database_once() -> None:
    backlog, now = Backlog(), [0.0]
    depth = Depth(backlog, lambda: now[0])
    assert (
        collected(depth)
        == collected(depth)
        == {("euterpe_database_up",): 1, ("euterpe_jobs", "q", "ready"): 7}
    )
    assert backlog.queries == 1
    now[0] = 2.0
    collected(depth)
    assert backlog.queries == 2


def test_without_a_database_the_scrape_says_so() -> None:
    backlog = Backlog()
    backlog.rows = None
    assert collected(Depth(backlog)) == {("euterpe_database_up",): 0}


def test_queues_beyond_the_longest_two_hundred_are_shown_as_one() -> None:
    backlog = Backlog()
    backlog.rows = [BacklogRow(queue=f"q{n:03}", lane="ready", jobs=n) for n in range(1, 301)]
    shown = collected(Depth(backlog))
    assert len(shown) == 202
    assert shown["euterpe_jobs", "(others)", "ready"] == sum(range(1, 101))
    assert shown["euterpe_jobs", "q300", "ready"] == 300


@pytest.mark.parametrize("path", ["/healthz", "/metrics"])
def test_what_operators_call_needs_no_key(served: Served, path: str) -> None:
    assert served.anonymous.get(path).status_code == 200
