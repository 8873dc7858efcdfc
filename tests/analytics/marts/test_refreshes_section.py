from euterpe.analytics.marts import refreshes
from tests.analytics.report.sample import empty, results

ROWS = [
    {"requester": "a", "jobs": 60, "refreshed_jobs": 6, "refreshes": 9, "succeeded_after": 1.0},
    {"requester": "b", "jobs": 40, "refreshed_jobs": 4, "refreshes": 4, "credential_failures": 3},
]


def test_renewals_and_their_failures_are_said() -> None:
    assert refreshes.section(results(refreshes=ROWS)).answer == (
        "10 jobs (10 %) had their credentials renewed, 13 times in all. "
        "3 attempts ended for lack of working credentials, 3 of them with b."
    )


def test_without_failures_that_is_said_too() -> None:
    assert refreshes.section(results(refreshes=ROWS[:1])).answer.endswith(
        "No attempt ended for lack of working credentials."
    )


def test_without_renewals_no_job_needed_credentials() -> None:
    assert refreshes.section(empty()).answer == "No job needed new credentials."
    assert (
        refreshes.section(results(refreshes=[{"requester": "a", "jobs": 5}])).answer
        == "No job needed new credentials."
    )
