"""The forms and the languages of sound."""

from typing import Any

import pytest

from euterpe.domain.outputs import M4aOutput, Mp4Output
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


def test_a_language_is_a_tag_in_any_case() -> None:
    sound = parsed({"type": "m4a", "audio": {"language": "pt-BR"}})
    assert isinstance(sound, M4aOutput)
    assert sound.audio.language == "pt-br"
    for wrong in ("", "e", "english", "en_GB", "en-", "én", "en\n"):
        assert refused({"type": "m4a", "audio": {"language": wrong}}) == {
            ("audio", "language"): "must be a language like 'en', 'eng' or 'pt-BR'"
        }
