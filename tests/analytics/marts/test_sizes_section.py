from euterpe.analytics.marts import sizes
from tests.analytics.report.sample import empty, results

GIB = 1024**3
SMALL = {"profile": "av1", "jobs": 4, "bytes_in": 8 * GIB, "bytes_out": GIB, "ratio": 0.125, "generous": 3}
LARGE = {
    "profile": "hls",
    "jobs": 2,
    "bytes_in": 2 * GIB,
    "bytes_out": 4 * GIB,
    "ratio": 2.0,
    "larger_than_source": 2,
}


def test_the_answer_says_what_was_saved_and_what_was_not() -> None:
    assert sizes.section(results(sizes=[SMALL, LARGE])).answer == (
        "10 GiB became 5 GiB (50 %). 2 jobs made more bytes than they read. 3 jobs measured above VMAF 97, "
        "most of them av1: a lower bit rate would hardly be seen."
    )


def test_what_grew_comes_first_in_another_colour() -> None:
    evidence = sizes.section(results(sizes=[SMALL, LARGE])).evidence
    assert evidence.index('class="waste"') < evidence.index('class="work"')


def test_sizes_that_are_not_known_are_not_drawn() -> None:
    assert "svg" not in sizes.section(results(sizes=[{"profile": "p", "jobs": 1}])).evidence


def test_nothing_encoded_is_said() -> None:
    assert sizes.section(empty()).answer == "Nothing has been encoded yet."
