from euterpe.analytics.marts import failures
from euterpe.analytics.marts.failures import failure_name
from tests.analytics.report.sample import empty, month, results


def test_the_commonest_the_new_and_the_rising_are_named() -> None:
    assert failures.section(month()).answer == (
        "1,335 attempts failed, in 7 ways. The commonest is source_not_found while fetching: 30.1 % of them. "
        "New in the last week: output_forbidden while uploading. "
        "More frequent than the week before: source_unreachable while fetching."
    )


def test_what_did_not_happen_for_two_weeks_is_in_the_table_alone() -> None:
    old = {
        "error_code": "disk_full",
        "error_phase": "fetching",
        "attempts": 9,
        "last_week": 0,
        "week_before": 0,
    }
    evidence = failures.section(results(failures=[old])).evidence
    assert "svg" not in evidence
    assert "disk_full" in evidence


def test_a_failure_without_code_or_phase_has_a_name() -> None:
    assert failure_name({"error_code": None, "error_phase": None}) == "unknown error"
    assert failure_name({"error_code": "canceled", "error_phase": None}) == "canceled"


def test_no_failure_is_said() -> None:
    assert failures.section(empty()).answer == "Nothing has failed."
