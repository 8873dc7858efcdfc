import pytest

from euterpe.domain.outputs import M4aOutput, Mp4Output
from euterpe.domain.profiles import PROFILES, Profile
from euterpe.domain.spec import parse_spec, resolve_outputs
from tests.domain.documents import EXAMPLE, MINIMAL, refusals


def test_a_profile_stands_for_its_outputs() -> None:
    (video,) = resolve_outputs(parse_spec(MINIMAL | {"profile": "h264-720p"}))
    assert isinstance(video, Mp4Output)
    assert (video.video.codec, video.video.height) == ("h264", 720)
    (sound,) = resolve_outputs(parse_spec(MINIMAL | {"profile": "audio-aac"}))
    assert isinstance(sound, M4aOutput)
    assert sound.audio.bitrate_kbps == 128


def test_outputs_stand_for_themselves() -> None:
    spec = parse_spec(EXAMPLE)
    assert resolve_outputs(spec) == spec.outputs


def test_an_unknown_profile_is_answered_with_the_known_ones() -> None:
    assert refusals(MINIMAL | {"profile": "h265"}) == {("profile",): "must be one of audio-aac, h264-720p"}


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_the_outputs_of_a_profile_are_a_valid_request(profile: Profile) -> None:
    outputs = [output.model_dump(mode="json") for output in profile.outputs]
    assert parse_spec(MINIMAL | {"profile": None, "outputs": outputs}).outputs == profile.outputs
    assert "\n" not in profile.description
