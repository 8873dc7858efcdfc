import pytest

from euterpe.domain.errors import FieldError, InvalidSpec
from euterpe.domain.spec import parse_spec
from euterpe.domain.text import Kind, check_text, display_text
from tests.domain.documents import MINIMAL, refusals

QUEUES = ["a", "default", "0", "high-priority", "EU", "jobs:stream:high"]


@pytest.mark.parametrize("name", [*QUEUES, "v1.2_x", "a" * 128])
def test_queue_names(name: str) -> None:
    assert check_text("queue", name, "queue") == name
    assert parse_spec(MINIMAL | {"queue": name}).queue == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ":a",
        "-a",
        ".a",
        "_a",
        "a b",
        "a/b",
        "a\n",
        "a\0",
        "é",
        "\ud800",
        "a" * 129,
        "a\x1b[0m",
        None,
        7,
        ["a"],
    ],
)
def test_names_that_are_no_queue(name: object) -> None:
    assert list(refusals(MINIMAL | {"queue": name})) == [("queue",)]
    with pytest.raises(InvalidSpec, match=r"^--queue: must be "):
        check_text("queue", name, "--queue")


@pytest.mark.parametrize("name", ["a", "tenant 7", "Überfilm", "映画 ☂", "🎬", "a" * 255])
def test_group_names(name: str) -> None:
    assert check_text("group", name, "group") == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        " a",
        "a ",
        "a\u00a0b",
        "a\tb",
        "a\nb",
        "a\0",
        "a\x7f",
        "a\x85b",
        "a\u200bb",
        "\u202ea",
        "\ufeffa",
        "a\ud800",
        "\ue000",
        "\u0378",
        "a" * 256,
        "\u0958" * 200,
        "\u0301" * 200_000,
    ],
    ids=ascii,
)
def test_names_that_are_no_group(name: str) -> None:
    for group in (name, {"id": name}):
        loc = ("group",) if isinstance(group, str) else ("group", "id")
        assert list(refusals(MINIMAL | {"group": group})) == [loc]


@pytest.mark.parametrize("key", ["k", "6f1c-…"[:5], "~!@#$%^&*()", "x" * 255])
def test_idempotency_keys(key: str) -> None:
    assert check_text("idempotency_key", key, "Idempotency-Key") == key


@pytest.mark.parametrize("key", ["", "a b", "é", "a\n", "\0", "x" * 256])
def test_texts_that_are_no_idempotency_key(key: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        check_text("idempotency_key", key, "Idempotency-Key")
    assert refused.value.errors == (
        FieldError(("Idempotency-Key",), "must be 1 to 255 visible ASCII characters"),
    )
    assert refused.value.__suppress_context__


def test_a_requester_is_named_in_a_hundred_characters() -> None:
    assert check_text("requester_name", "Acme Vidéo", "NAME") == "Acme Vidéo"
    for name in ("", " ", "a" * 101, "a\x1bb"):
        with pytest.raises(InvalidSpec, match=r"^NAME: must be 1 to 100 printable characters"):
            check_text("requester_name", name, "NAME")


@pytest.mark.parametrize("kind", ["group", "requester_name"])
def test_names_for_people_are_normalised(kind: Kind) -> None:
    assert check_text(kind, "cafe\u0301", "x") == "caf\u00e9"


def test_an_external_id_is_kept_as_it_is() -> None:
    for given in (" cafe\u0301 \u200d ", "x" * 255):
        assert parse_spec(MINIMAL | {"external_id": given}).external_id == given
    for wrong in ("", "x" * 256, "a\nb", "a\0", "\ud83d", 42):
        assert list(refusals(MINIMAL | {"external_id": wrong})) == [("external_id",)]


def test_what_is_shown_of_a_document_is_short_and_printable() -> None:
    assert display_text("größe") == "größe"
    assert display_text(7) == 7
    assert display_text("a\x1b\n\ud800") == r"a\x1b\n\ud800"
    assert display_text("x" * 1000) == "x" * 64 + "…"
