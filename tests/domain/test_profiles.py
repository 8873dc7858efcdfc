"""The built-in profiles, and the profiles of an operator.

If a file is invalid, all of its errors are reported. No file replaces a built-in profile.
"""

from collections.abc import Mapping

import pytest

from euterpe.domain.outputs import M4aOutput, Mp4Output
from euterpe.domain.profiles import (
    InvalidProfiles,
    Profile,
    built_in_profiles,
    with_operator_profiles,
)
from euterpe.domain.spec import parse_spec, parse_stored_spec, resolve_outputs
from tests.domain.documents import EXAMPLE, MINIMAL, refusals

BUILT_IN = built_in_profiles()
OWN = b"""
description = "Our own."
reason = "For the archive of the newsroom."

[[outputs]]
name = "film"
type = "mp4"
audio = "none"
video = {codec = "hevc", height = 720}
"""


def problems_of(texts: Mapping[str, bytes]) -> tuple[str, ...]:
    with pytest.raises(InvalidProfiles) as refused:
        with_operator_profiles(texts)
    return refused.value.problems


def test_a_profile_stands_for_its_outputs() -> None:
    (video,) = resolve_outputs(parse_spec(MINIMAL | {"profile": "h264-720p"}))
    assert isinstance(video, Mp4Output)
    assert video.video is not None
    assert (video.video.codec, video.video.height) == ("h264", 720)
    (sound,) = resolve_outputs(parse_spec(MINIMAL | {"profile": "audio-aac"}))
    assert isinstance(sound, M4aOutput)
    assert sound.audio.bitrate_kbps == 128


def test_outputs_stand_for_themselves() -> None:
    spec = parse_spec(EXAMPLE)
    assert resolve_outputs(spec) == spec.outputs


def test_an_unknown_profile_is_answered_with_the_closest_one() -> None:
    listed = "must be a profile that GET /transcode/profiles lists"
    assert refusals(MINIMAL | {"profile": "h264-721p"}) == {
        ("profile",): f"{listed} (did you mean 'h264-720p'?)"
    }
    assert refusals(MINIMAL | {"profile": "vhs"}) == {("profile",): listed}


@pytest.mark.parametrize("profile", BUILT_IN.values(), ids=BUILT_IN)
def test_the_outputs_of_a_profile_are_a_valid_request(profile: Profile) -> None:
    outputs = profile.document()["outputs"]
    assert parse_spec(MINIMAL | {"profile": None, "outputs": outputs}).outputs == profile.outputs


@pytest.mark.parametrize("profile", BUILT_IN.values(), ids=BUILT_IN)
def test_a_built_in_profile_says_in_a_line_what_it_makes_and_why(profile: Profile) -> None:
    assert profile.built_in
    for line in (profile.description, profile.reason):
        assert line[0].isupper() or line[0].isdigit()
        assert line.endswith(".")
        assert len(line) <= 120


def test_there_is_a_profile_for_each_kind_of_use() -> None:
    assert len(BUILT_IN) >= 20
    made = {output.type for profile in BUILT_IN.values() for output in profile.outputs}
    assert made >= {"adaptive", "mp4", "webm", "m4a", "mp3", "opus", "flac", "image", "sprite", "preview"}


def test_the_outputs_of_the_first_profiles_are_those_of_the_first_release() -> None:
    """A worker of the previous release resolves these two names itself, so their outputs must not change."""
    (film,) = BUILT_IN["h264-720p"].outputs
    (sound,) = BUILT_IN["audio-aac"].outputs
    aac = {"codec": "aac", "bitrate_kbps": 128}
    assert film.model_dump(exclude_defaults=True) == {
        "name": "mp4",
        "type": "mp4",
        "video": {"height": 720},
        "audio": aac,
    }
    assert sound.model_dump(exclude_defaults=True) == {"name": "audio", "type": "m4a", "audio": aac}


def test_an_operator_adds_profiles() -> None:
    profiles = with_operator_profiles({"our-own.toml": OWN})
    own = profiles["our-own"]
    assert (own.description, own.built_in) == ("Our own.", False)
    assert own.reason == "For the archive of the newsroom."
    spec = parse_spec(MINIMAL | {"profile": "our-own"}, profiles)
    assert spec.outputs == own.outputs
    (film,) = resolve_outputs(spec)
    assert isinstance(film, Mp4Output)
    assert film.audio is None
    assert refusals(MINIMAL | {"profile": "our-own"}).keys() == {("profile",)}


def test_a_stored_job_needs_no_profile_of_the_operator() -> None:
    outputs = [{"name": "film", "type": "mp4"}]
    spec = parse_stored_spec(MINIMAL | {"profile": "gone", "outputs": outputs})
    assert (spec.profile, len(spec.outputs or ())) == ("gone", 1)
    assert refusals(MINIMAL | {"outputs": outputs}) == {
        ("outputs",): "give either profile or outputs, and not both"
    }


def test_an_operator_cannot_replace_a_built_in_profile() -> None:
    files = {"h264-720p.toml": OWN, "podcast.toml": OWN, "mine.toml": OWN, "wrong.toml": OWN + b"a = 1"}
    assert problems_of(files) == (
        "wrong.toml: outputs.0.a: is not a known field",
        "h264-720p.toml: a built-in profile has this name",
        "podcast.toml: a built-in profile has this name",
    )


def test_a_profile_may_have_a_watermark_but_no_signature() -> None:
    """Every requester can read all profiles, so a profile must not contain a signature."""

    def own(url: str) -> bytes:
        return OWN + f'watermark = {{ source = {{ url = "{url}" }} }}\n'.encode()

    profiles = with_operator_profiles({"our-own.toml": own("s3://brand/logo.png")})
    assert "s3://brand/logo.png" in str(profiles["our-own"].document())
    with pytest.raises(InvalidProfiles, match="signed URL") as refused:
        with_operator_profiles({"our-own.toml": own("https://brand.example/logo.png?sig=c4n4ry")})
    assert "c4n4ry" not in str(refused.value)


@pytest.mark.parametrize("key", ["", ', key = "c0ffee11c0ffee22c0ffee33c0ffee44"'])
def test_a_profile_has_no_encryption(key: str) -> None:
    """Every requester can read all profiles, so a profile must not contain an encryption key."""
    output = OWN.replace(b'type = "mp4"', b'type = "hls"').split(b"video")[0]
    lines = f'video = {{ ladder = [720] }}\nencryption = {{ key_url = "https://keys.example/1"{key} }}\n'
    with pytest.raises(InvalidProfiles, match="outputs: must not have encryption") as refused:
        with_operator_profiles({"our-own.toml": output + lines.encode()})
    assert "c0ffee" not in str(refused.value)


def test_every_error_of_every_file_is_named() -> None:
    wrong = OWN.replace(b"720", b"721").replace(b'type = "mp4"', b'type = "mp4"\ncolour = "red"')
    files = {"a.toml": wrong, "B!.toml": OWN, "c.toml": b"outputs = [", "d.toml": b"", "e.toml": OWN}
    found = problems_of(files)
    assert {problem.partition(": ")[0] for problem in found} == {"a.toml", "B!.toml", "c.toml", "d.toml"}
    assert {problem for problem in found if problem.startswith("a.toml")} == {
        "a.toml: outputs.0.video.height: must be a multiple of 2",
        "a.toml: outputs.0.colour: is not a known field",
    }
    assert [problem for problem in found if problem.startswith("d.toml")] == [
        "d.toml: description: is required",
        "d.toml: reason: is required",
        "d.toml: outputs: is required",
    ]


@pytest.mark.parametrize(
    "text",
    [
        b"\xff",
        b"\0",
        b"a = 1\na = 2",
        b"[" * 100_000,
        b"a = " + b"[" * 5_000,
        b"a = " + b"9" * 10_000,
        b"description = 1979-05-27T07:32:00Z",
        b"outputs = 7",
        b"outputs = [1, [], {}]",
        b'outputs = [{name = "a", type = "mp4", start = nan}]',
        OWN + b"extends = 1",
        OWN.replace(b'"none"', b'"nothing"'),
        OWN.replace(b"Our own.", b"two\\nlines"),
    ],
    ids=lambda text: repr(text[:20]),
)
def test_a_hostile_file_is_refused_with_its_name(text: bytes) -> None:
    for problem in problems_of({"x.toml": text}):
        assert problem.startswith("x.toml: ")
        assert problem.isprintable()
        assert len(problem) < 300
