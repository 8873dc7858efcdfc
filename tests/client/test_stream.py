from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from euterpe.client.stream import Message, SseParser

MESSAGES = [Message("hello", "{}"), Message("job.claimed", '{"a":\n1}'), Message("", "naked é\u2028🎞")]
TEXT = (
    ": beat\n\nevent: hello\ndata: {}\n\nid: 7\nevent:job.claimed\ndata: {\"a\":\ndata:1}\nretry: 5\n\n"
    "data: naked é\u2028🎞\nfield without colon\n\n\nevent: cut short\ndata: x"
)  # fmt: skip


def read(chunks: list[bytes]) -> list[Message]:
    messages = SseParser()
    return [message for chunk in chunks for message in messages.take(chunk)]


@given(st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 200)))
def test_messages_are_the_same_however_the_bytes_are_cut(line_end: str, cuts: list[int]) -> None:
    data = TEXT.replace("\n", line_end).encode()
    edges = sorted({0, *(min(cut, len(data)) for cut in cuts), len(data)})
    assert read([data[a:b] for a, b in pairwise(edges)]) == MESSAGES


@given(st.lists(st.binary(max_size=30), max_size=10))
def test_any_bytes_are_read_without_an_error(chunks: list[bytes]) -> None:
    read(chunks)
