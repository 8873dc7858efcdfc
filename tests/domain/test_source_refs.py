import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.domain.source_refs import ForeignQueue, is_paced_elsewhere, source_ref_of

PARTS = st.lists(st.text(max_size=60), min_size=1, max_size=4)


@given(st.sampled_from(ForeignQueue), PARTS, st.sampled_from(ForeignQueue), PARTS)
def test_different_messages_have_different_refs(
    queue: ForeignQueue, parts: list[str], other: ForeignQueue, others: list[str]
) -> None:
    refs = source_ref_of(queue, *parts), source_ref_of(other, *others)
    assert (refs[0] == refs[1]) == ((queue, parts) == (other, others))
    assert all(ref.isprintable() and len(ref) <= 255 for ref in refs)


def test_a_ref_reads_as_its_parts() -> None:
    ref = source_ref_of(ForeignQueue.BULLMQ, "bull", "videos", "a:b", "1700000000000")
    assert ref == "bullmq:bull:videos:a%3Ab:1700000000000"


@pytest.mark.parametrize(
    ("ref", "is_paced"),
    [("bullmq:bull:q:1", True), ("omniq:q:1", True), ("stream:s:1", False), ("bull:1", False), (None, False)],
)
def test_bullmq_and_omniq_pace_their_retries(ref: str | None, is_paced: bool) -> None:
    assert is_paced_elsewhere(ref) is is_paced
