"""The settings of sound tracks in a request, and their languages."""

from typing import Any

import pytest

from euterpe.domain.outputs import Loudness, M4aOutput, Mp4Output
from euterpe.domain.spec import parse_spec
from tests.domain.outputs.one_output import parsed, refused, with_outputs


def test_sound_can_be_left_out() -> None:
    (silent,) = parse_spec(with_outputs({"name": "a", "type": "mp4", "audio": None})).outputs or ()
    assert isinstance(silent, Mp4Output)
    assert silent.audio is None


@pytest.mark.parametrize(
    "audio", [None, "all", {"channels": "keep"}, [{"language": "en"}, {"language": "de"}]]
)
def test_sound_has_four_forms(audio: Any) -> None:
    for kind in ("mp4", "mov", "webm", "adaptive"):
        video = {"ladder": "auto"} if kind == "adaptive" else {}
        parsed({"type": kind, "video": video, "audio": audio})


@pytest.mark.parametrize("audio", ["none", 7, True, [], [{}, {}], [None], ["all"]])
def test_sound_has_no_other_form(audio: Any) -> None:
    (loc,) = refused({"type": "mp4", "audio": audio})
    assert loc[0] == "audio"


@pytest.mark.parametrize(
    ("loudness", "field"),
    [
        ({"target": -4.9}, "target"),
        ({"target": -70.1}, "target"),
        ({"target": None}, "target"),
        ({"target": float("nan")}, "target"),
        ({"true_peak": 0.1}, "true_peak"),
        ({"true_peak": -9.1}, "true_peak"),
        ({"lufs": -16}, "lufs"),
    ],
)
def test_a_loudness_out_of_range_is_refused(loudness: Any, field: str) -> None:
    assert ("audio", "loudness", field) in refused({"type": "m4a", "audio": {"loudness": loudness}})


def test_a_loudness_has_the_defaults_of_podcasts() -> None:
    sound = parsed({"type": "m4a", "audio": {"loudness": {}}})
    assert isinstance(sound, M4aOutput)
    assert sound.audio.loudness == Loudness(target=-16.0, true_peak=-1.0)


def test_a_language_is_a_tag_in_any_case() -> None:
    sound = parsed({"type": "m4a", "audio": {"language": "pt-BR"}})
    assert isinstance(sound, M4aOutput)
    assert sound.audio.language == "pt-br"
    for wrong in ("", "e", "english", "en_GB", "en-", "én", "en\n"):
        assert refused({"type": "m4a", "audio": {"language": wrong}}) == {
            ("audio", "language"): "must be a language like 'en', 'eng' or 'pt-BR'"
        }
