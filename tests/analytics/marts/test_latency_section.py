from typing import Any

from euterpe.analytics.marts import latency
from euterpe.analytics.marts.latency import by_kind
from tests.analytics.report.sample import empty, results


def stage(
    name: str, p50: float | None, profile: str = "h264", queue: str = "default", count: int = 9
) -> dict[str, Any]:
    times = {"p50_ms": p50, "p95_ms": p50 and p50 * 3, "p99_ms": p50 and p50 * 4}
    return {"profile": profile, "queue": queue, "stage": name, "count": count, **times}


def test_the_answer_says_where_the_time_of_a_usual_and_of_a_slow_job_goes() -> None:
    waiting = {**stage("waiting", 1_000.0), "p95_ms": 600_000.0, "p99_ms": 900_000.0}
    made = results(latency=[waiting, stage("encode", 60_000.0), stage("total", 70_000.0)])
    assert latency.section(made).answer == (
        "The commonest work is h264: half of it was done 1 min 10 s after it was due, 95 % after "
        "3 min 30 s. A usual job spends most of its time encoding (median 1 min); what "
        "takes longest where it takes long is waiting (95 % within 10 min)."
    )


def test_kinds_come_in_order_of_how_common_they_are() -> None:
    made = results(
        latency=[
            stage("fetch", 1.0, "rare", count=1),
            stage("fetch", 1.0, "often", "bulk", count=5),
            stage("encode", None, "never"),
            stage("encode", 1.0, "none", count=0),
        ]
    )
    assert list(by_kind(made)) == [("often", "bulk"), ("rare", "default")]
    assert "often · bulk" in latency.section(made).evidence


def test_stages_are_in_the_order_in_which_they_happen() -> None:
    names = ("total", "upload", "waiting", "encode", "fetch")
    table = latency.section(results(latency=[stage(name, 5.0) for name in names])).evidence.split("<tbody>")[
        1
    ]
    places = [table.index(f"<td>{name}</td>") for name in ("waiting", "fetch", "encode", "upload", "total")]
    assert places == sorted(places)


def test_of_many_kinds_the_commonest_are_listed() -> None:
    made = results(latency=[stage("total", 5.0, f"p{n:02}", count=100 - n) for n in range(30)])
    assert "Time of each stage, the 8 commonest kinds of 30" in latency.section(made).evidence
    assert ">p07<" in latency.section(made).evidence
    assert ">p08<" not in latency.section(made).evidence


def test_nothing_measured_is_said() -> None:
    assert latency.section(empty()).answer == "Nothing has run yet."
