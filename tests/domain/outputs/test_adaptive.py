"""Ladders and subtitles of outputs for adaptive players."""

import traceback
from typing import Any

import pytest
from pydantic import SecretStr

from euterpe.domain.errors import InvalidSpec
from euterpe.domain.outputs import AdaptiveOutput, AdaptiveVideo, Encryption, HlsOutput, Rung
from euterpe.domain.spec import parse_spec, parse_stored_spec
from tests.domain.documents import EXAMPLE, altered, refusals
from tests.domain.outputs.one_output import HLS, parsed, refused, with_outputs


@pytest.mark.parametrize(
    "ladder", [[], [480, 720], [720, 720], [4322], list(range(200, 178, -2)), [720, 480.0], "720", None]
)
def test_a_ladder_goes_down_and_has_at_most_ten_steps(ladder: Any) -> None:
    loc = ("outputs", HLS, "video", "ladder")
    assert all(found[:4] == loc for found in refusals(altered(EXAMPLE, *loc, to=ladder)))


def test_a_height_in_a_ladder_is_a_rung() -> None:
    video = {"ladder": [{"height": 1080, "bitrate_kbps": 6000, "crf": 22}, 720, {"height": 720, "crf": 30}]}
    stream = parsed({"type": "adaptive", "video": video})
    assert isinstance(stream, AdaptiveOutput)
    assert stream.video.ladder == (
        Rung(height=1080, bitrate_kbps=6000, crf=22),
        Rung(height=720),
        Rung(height=720, crf=30),
    )
    assert stream.model_dump(mode="json")["video"]["ladder"] == [
        {"height": 1080, "bitrate_kbps": 6000, "crf": 22},
        720,
        {"height": 720, "bitrate_kbps": None, "crf": 30},
    ]


def test_a_ladder_may_be_left_to_the_service() -> None:
    stream = parsed({"type": "hls", "video": {"ladder": "auto"}})
    assert isinstance(stream, HlsOutput)
    assert stream.video == AdaptiveVideo(ladder="auto")


@pytest.mark.parametrize(
    ("ladder", "found"),
    [
        ("best", {(): "must be a list of heights or objects, or 'auto'"}),
        (720, {(): "must be a list of heights or objects, or 'auto'"}),
        ([True], {(0,): "must be an integer"}),
        ([{"crf": 22}], {(0, "height"): "is required"}),
        ([{"height": 720, "crf": 52}], {(0, "crf"): "must be at most 51 for this codec"}),
        ([720, {"height": 720}], {(): "must not have the same item twice"}),
        ([480, {"height": 720}], {(): "must go from the greatest height to the least"}),
    ],
)
def test_a_wrong_ladder_is_found(ladder: Any, found: dict[tuple[str | int, ...], str]) -> None:
    wrong = {"type": "dash", "video": {"codec": "h264", "ladder": ladder}}
    assert refused(wrong) == {("video", "ladder", *loc): text for loc, text in found.items()}


def test_subtitles_are_chosen_by_language() -> None:
    video = {"ladder": "auto"}
    stream = parsed({"type": "hls", "video": video, "subtitles": ["en", "DE"]})
    assert isinstance(stream, HlsOutput)
    assert stream.subtitles == ("en", "de")
    wrongs: list[Any] = [[], ["en", "EN"], "en", {}]
    for wrong in wrongs:
        assert list(refused({"type": "hls", "video": video, "subtitles": wrong})) == [("subtitles",)]


KEY = "c0ffee11c0ffee22c0ffee33c0ffee44"
LOCK = {"key_url": "https://keys.example/1?film=7", "key": KEY}
ENCRYPTED: dict[str, Any] = {"name": "a", "type": "hls", "video": {"ladder": "auto"}, "encryption": LOCK}


@pytest.mark.parametrize("written", ["0x" + "AB" * 16, "ab" * 16])
@pytest.mark.parametrize("method", [{}, {"method": "aes-128"}])
def test_hls_may_be_encrypted(written: str, method: dict[str, str]) -> None:
    stream = parsed(ENCRYPTED | {"encryption": {**LOCK, **method, "key": KEY.upper(), "iv": written}})
    assert isinstance(stream, HlsOutput)
    assert stream.encryption == Encryption(key_url=LOCK["key_url"], key=SecretStr(KEY), iv="ab" * 16)


@pytest.mark.parametrize("kind", ["dash", "adaptive"])
def test_dash_cannot_be_encrypted(kind: str) -> None:
    (message,) = refused(ENCRYPTED | {"type": kind}).values()
    assert message == (
        f"must be null for {kind!r}: MPEG-DASH has no AES-128 of whole segments; use the type 'hls'"
    )


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"key": KEY}, "key_url"),
        ({**LOCK, "key_url": "http://keys.example/1"}, "key_url"),
        ({**LOCK, "key_url": "https://user:password@keys.example/1"}, "key_url"),
        ({**LOCK, "key_url": 'https://keys.example/1"\n#EXT-X-KEY:METHOD=NONE'}, "key_url"),
        ({**LOCK, "key_url": "https://keys.example/" + "x" * 2048}, "key_url"),
        ({**LOCK, "method": "sample-aes"}, "method"),
        ({**LOCK, "method": None}, "method"),
        ({**LOCK, "iv": "ab" * 15}, "iv"),
        ({**LOCK, "iv": 1}, "iv"),
        ({**LOCK, "key_uri": "https://keys.example/1"}, "key_uri"),
    ],
)
def test_wrong_encryption_is_found(wrong: Any, where: str) -> None:
    assert list(refused(ENCRYPTED | {"encryption": wrong})) == [("encryption", where)]


@pytest.mark.parametrize("wrong", [KEY[:31], KEY + "0", "0x" + KEY, "g" + KEY[1:], KEY + "\n"])
def test_a_wrong_key_is_refused_and_not_quoted(wrong: str) -> None:
    with pytest.raises(InvalidSpec) as found:
        parse_spec(with_outputs(ENCRYPTED | {"encryption": {**LOCK, "key": wrong}}))
    (error,) = found.value.errors
    assert error.loc == ("outputs", 0, "encryption", "key")
    assert error.msg == "must be a key of 16 bytes as 32 hex digits"
    shown = "".join(traceback.format_exception(found.value)) + repr(found.value.args)
    assert wrong.strip() not in shown


def test_a_request_needs_the_key_and_a_stored_job_has_none() -> None:
    text = "must have a key of 16 bytes as 32 hex digits"
    for keyless in ({"key_url": LOCK["key_url"]}, {**LOCK, "key": None}):
        output = ENCRYPTED | {"encryption": keyless}
        assert refused(output) == {("encryption",): text}
        (stored,) = parse_stored_spec(with_outputs(output)).outputs or ()
        assert isinstance(stored, HlsOutput)
        assert stored.encryption == Encryption(key_url=LOCK["key_url"])


def test_no_dump_and_no_text_of_an_output_has_its_key() -> None:
    stream = parsed(ENCRYPTED)
    shown = (repr(stream), str(stream), stream.model_dump_json(), str(stream.model_dump()), str(vars(stream)))
    assert not [text for text in shown if KEY in text]
    assert stream.model_dump(mode="json", exclude_unset=True)["encryption"] == {"key_url": LOCK["key_url"]}
