import json

from hypothesis import given
from hypothesis import strategies as st

from euterpe.domain.events import event_body, is_wanted
from euterpe.domain.states import JobStatus
from euterpe.domain.units import iso, iso_or_none

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
documents = st.dictionaries(text, st.none() | st.booleans() | st.integers(-(2**53), 2**53) | text, max_size=4)


@given(
    status=st.sampled_from(JobStatus),
    external_id=st.none() | text,
    metadata=documents,
    outputs=st.lists(documents, max_size=3),
    error=st.none() | documents,
)
def test_a_body_is_the_json_that_its_parts_say(
    status: JobStatus,
    external_id: str | None,
    metadata: object,
    outputs: list[object],
    error: object,
) -> None:
    body = event_body(
        type_=f"job.{status}",
        event_id="e",
        sequence=7,
        job_id="j",
        status=status,
        occurred_at=1_800_000_000_123,
        attempt_count=2,
        external_id=json.dumps(external_id),
        metadata=json.dumps(metadata),
        outputs=json.dumps(outputs),
        error=json.dumps(error),
    )
    assert json.loads(body) == {
        "event_id": "e",
        "sequence": 7,
        "type": f"job.{status}",
        "job_id": "j",
        "status": status,
        "occurred_at": "2027-01-15T08:00:00.123Z",
        "attempt_count": 2,
        "external_id": external_id,
        "metadata": metadata,
        "outputs": outputs if status is JobStatus.SUCCEEDED else [],
        "error": error if status in (JobStatus.FAILED, JobStatus.DEAD_LETTER) else None,
    }


def test_every_status_is_wanted_unless_a_list_says_which() -> None:
    for status in JobStatus:
        assert not is_wanted(status, None, None)
        assert is_wanted(status, "https://r/", None)
        assert is_wanted(status, "https://r/", ["succeeded"]) is (status is JobStatus.SUCCEEDED)
        assert not is_wanted(status, "https://r/", [])


def test_instants_are_shown_in_utc_with_milliseconds() -> None:
    assert iso(0) == "1970-01-01T00:00:00.000Z"
    assert iso(1_800_000_000_007) == "2027-01-15T08:00:00.007Z"
    assert iso_or_none(None) is None
