"""Tests of encodes: every output is playable and as specified, for every kind of source."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from euterpe.domain.codecs import codecs_for
from euterpe.domain.outputs import ImageOutput, OutputSpec
from euterpe.domain.profiles import built_in_profiles
from euterpe.media.encoding.encode import max_output_bytes
from euterpe.media.encoding.progress import EncodeProgress
from euterpe.media.encoding.verify import verify
from euterpe.media.errors import MediaError
from euterpe.media.planning.argv import arguments
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tree import PlannedText
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.clips import Clips
from tests.media.media_steps import FILM, SOUND, TIMEOUT_S, film, make, probe, run
from tests.media.readers.media import sound


def test_the_profiles_make_a_film_and_its_sound_from_one_decode(
    clips: Clips, sandbox: Sandbox, tmp_path: Path
) -> None:
    outputs = (*built_in_profiles()["h264-720p"].outputs, *built_in_profiles()["audio-aac"].outputs)
    made = make(sandbox, clips.make("film.mp4"), outputs, tmp_path)
    assert [(file.output, file.name, file.content_type, file.width, file.height) for file in made] == [
        ("mp4", "mp4.mp4", "video/mp4", 320, 180),
        ("audio", "audio.m4a", "audio/mp4", None, None),
    ]
    assert [file.path for file in made] == [tmp_path / "mp4.mp4", tmp_path / "audio.m4a"]
    for file, codecs in zip(made, (["h264", "aac"], ["aac"]), strict=True):
        assert file.duration_seconds == pytest.approx(2.0, abs=0.05)
        assert [stream.codec for stream in probe(sandbox, file.path).streams] == codecs


@pytest.mark.parametrize("codec", [codec.name for codec in codecs_for("video", "mp4")])
def test_every_codec_is_made(clips: Clips, sandbox: Sandbox, tmp_path: Path, codec: str) -> None:
    (made,) = make(sandbox, clips.make("film.mp4"), [film(codec, height=90)], tmp_path)
    video = probe(sandbox, made.path).video
    assert video is not None
    assert (video.codec, video.width, video.height, video.pixel_format) == (codec, 160, 90, "yuv420p")
    if codec == "hevc":
        assert b"hvc1" in made.path.read_bytes()


@pytest.mark.parametrize(
    "name", ["film.mkv", "film.webm", "film.ts", "film.avi", "film.mov", "hevc.mp4", "av1.mp4", "uneven.mkv"]
)
def test_films_of_every_container_and_codec_are_read(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, name: str
) -> None:
    (made,) = make(sandbox, clips.make(name), [FILM], tmp_path)
    assert (made.width, made.height) == (160, 90)
    assert made.duration_seconds == pytest.approx(2.0, abs=0.3)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sound.mp3", (1, 44100)),
        ("sound.wav", (1, 44100)),
        ("sound.flac", (1, 44100)),
        ("sound.ogg", (1, 44100)),
        ("surround.mkv", (2, 48000)),
        ("cover.m4a", (1, 44100)),
    ],
)
def test_sound_of_every_kind_is_read(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, name: str, expected: tuple[int, int]
) -> None:
    (made,) = make(sandbox, clips.make(name), [SOUND], tmp_path)
    (stream,) = probe(sandbox, made.path).streams
    assert stream.codec == "aac"
    assert (stream.channels, stream.sample_rate) == expected


@pytest.mark.parametrize(
    ("case", "size"),
    [
        (("film.mp4", 720), (320, 180)),  # a film is never enlarged
        (("film.mp4", 90), (160, 90)),
        (("film.mp4", 100), (178, 100)),
        (("odd.mkv", None), (160, 90)),
        (("wide.mp4", None), (320, 90)),
        (("tiny.mp4", None), (32, 32)),
        (("interlaced.mp4", None), (160, 96)),
        (("still.mp4", None), (160, 90)),
    ],
)
def test_the_picture_fits_and_keeps_its_shape(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, case: tuple[str, int | None], size: tuple[int, int]
) -> None:
    name, height = case
    (made,) = make(sandbox, clips.make(name), [film(height=height)], tmp_path)
    video = probe(sandbox, made.path).video
    assert video is not None
    assert (video.width, video.height, video.pixel_aspect) == (*size, 1.0)
    assert (made.width, made.height) == size


@pytest.mark.parametrize(("degrees", "size"), [(90, (180, 320)), (180, (320, 180)), (270, (180, 320))])
def test_a_rotated_film_becomes_upright(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, degrees: int, size: tuple[int, int]
) -> None:
    (made,) = make(sandbox, clips.rotated(degrees), [FILM], tmp_path)
    video = probe(sandbox, made.path).video
    assert video is not None
    assert (video.width, video.height, video.rotation) == (*size, 0)


def test_high_dynamic_range_becomes_standard(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    (made,) = make(sandbox, clips.make("hdr.mp4"), [FILM], tmp_path)
    video = probe(sandbox, made.path).video
    assert video is not None
    assert (video.hdr, video.colour.transfer, video.pixel_format) == (None, 1, "yuv420p")


def test_a_film_without_sound_stays_silent_and_sound_without_a_film_is_refused(
    clips: Clips, sandbox: Sandbox, tmp_path: Path
) -> None:
    (made,) = make(sandbox, clips.make("silent.mp4"), [FILM], tmp_path)
    assert [stream.kind for stream in probe(sandbox, made.path).streams] == ["video"]
    for name, output, code in (
        ("silent.mp4", SOUND, "no_audio_stream"),
        ("sound.m4a", FILM, "no_video_stream"),
    ):
        with pytest.raises(MediaError) as refused:
            plan([output], probe(sandbox, clips.make(name)), threads=1)
        assert refused.value.code == code


def test_sound_that_was_not_asked_for_is_left_out(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    (made,) = make(sandbox, clips.make("film.mp4"), [film(audio=None)], tmp_path)
    assert [stream.kind for stream in probe(sandbox, made.path).streams] == ["video"]


def test_silence_fills_the_time_before_sound_that_begins_late(
    clips: Clips, sandbox: Sandbox, tmp_path: Path
) -> None:
    (made,) = make(sandbox, clips.make("late.mkv"), [FILM], tmp_path)
    assert made.duration_seconds == pytest.approx(2.0, abs=0.1)
    heard = sound(made.path)
    begin = round((0.95 - heard.first_seconds) * heard.sample_rate)
    assert np.abs(heard.samples[:, :begin]).max() < 0.01
    assert np.abs(heard.samples[:, begin:]).max() > 0.05


def test_a_film_has_its_index_first_and_no_tags_of_the_source(
    clips: Clips, sandbox: Sandbox, tmp_path: Path
) -> None:
    (made,) = make(sandbox, clips.make("tagged.mp4"), [FILM], tmp_path)
    data = made.path.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")
    assert b"CANARY-TITLE" not in data
    assert b"12.3456" not in data


def test_the_same_encode_makes_the_same_bytes(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    contents = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        made = make(sandbox, clips.make("film.mp4"), [FILM], tmp_path / name)
        contents.append([file.path.read_bytes() for file in made])
    assert contents[0] == contents[1]


def test_progress_is_reported_and_stats_are_returned(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    source = clips.make("long.mp4")
    planned = plan([film("hevc")], probe(sandbox, source), threads=1)
    reports: list[EncodeProgress] = []
    stats = run(sandbox, planned, source, tmp_path, on_progress=reports.append)
    percents = [progress.percent for progress in reports if progress.percent is not None]
    assert percents == sorted(percents)
    assert all(0 <= percent <= 100 for percent in percents)
    assert stats.out_bytes == (tmp_path / "film.mp4").stat().st_size
    assert stats.cpu_seconds > 0
    assert stats.peak_memory_bytes > 1 << 20


def test_a_failed_encode_reports_its_processor_time(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    source = clips.make("film.mp4")
    planned = plan([FILM], probe(sandbox, source), threads=1)
    cpu_reports: list[float] = []
    with pytest.raises(MediaError):
        run(sandbox, planned, source, tmp_path, max_output_bytes=4096, on_cpu=cpu_reports.append)
    assert cpu_reports[-1] > 0


def optional(output: OutputSpec) -> OutputSpec:
    return output.model_copy(update={"optional": True})


def test_an_optional_output_that_fails_is_named_and_the_others_are_made(
    clips: Clips, sandbox: Sandbox, tmp_path: Path
) -> None:
    source = clips.make("film.mp4")
    planned = plan([optional(FILM), SOUND], probe(sandbox, source), threads=1)
    stats = run(sandbox, planned, source, tmp_path, max_output_bytes=30_000)
    (failed,) = stats.failed
    assert (failed.code, failed.output) == ("output_failed", "film")
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [".pictures", "sound.m4a"], "the rest of the film is removed"
    assert [file.name for file in verify(sandbox, planned, tmp_path, failed=stats.failed).files] == [
        "sound.m4a"
    ]


def test_other_commands_of_an_output_that_failed_do_not_run(
    clips: Clips, sandbox: Sandbox, tmp_path: Path
) -> None:
    source = clips.make("film.mp4")
    stills = ImageOutput(name="stills", type="image", at=("10%", "50%", "90%"), optional=True)
    planned = plan([stills, SOUND], probe(sandbox, source), threads=1)
    (tmp_path / "stills" / "1.jpg").mkdir(parents=True)
    reports: list[EncodeProgress] = []
    stats = run(sandbox, planned, source, tmp_path, on_progress=reports.append)
    assert [warning.output for warning in stats.failed] == ["stills"]
    assert [path.name for path in tmp_path.iterdir()] == ["sound.m4a"]


def test_a_failure_of_the_worker_is_no_failure_of_an_optional_output(
    clips: Clips, sandbox: Sandbox, tmp_path: Path
) -> None:
    source = clips.make("long.mp4")
    planned = plan([optional(film("hevc"))], probe(sandbox, source), threads=1)
    with pytest.raises(MediaError) as ended:
        run(sandbox, planned, source, tmp_path, timeout_seconds=0.1)
    assert ended.value.code == "encode_timeout"


def test_a_clip_and_its_copy_are_encoded_side_by_side(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    source = clips.make("one.mp4")

    def one(number: int) -> int:
        folder = tmp_path / str(number)
        folder.mkdir()
        return len(make(sandbox, source, [FILM, SOUND], folder))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(8))) == [2] * 8


def test_the_bare_command_makes_the_same_film(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    source = clips.make("film.mp4")
    planned = plan([FILM], probe(sandbox, source), threads=1)
    run(sandbox, planned, source, tmp_path)
    (tmp_path / "bare/.pictures").mkdir(parents=True)
    words = list(arguments(planned, planned.commands[0], sandbox.ffmpeg))
    place = words.index("-fd")
    words[place : place + 4] = ["-i", str(source)]
    words[words.index("-protocol_whitelist") + 1] = "file,pipe"
    subprocess.run(words, cwd=tmp_path / "bare", check=True, timeout=TIMEOUT_S, capture_output=True)
    assert (tmp_path / "bare/film.mp4").read_bytes() == (tmp_path / "film.mp4").read_bytes()


def test_the_limit_of_an_output_follows_the_contract() -> None:
    assert max_output_bytes(10**9 + 1) == 2 * (10**9 + 1)
    assert max_output_bytes(10**9) >= 2 * 10**9


def test_a_planned_text_does_not_follow_a_link(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    """A compromised ffmpeg that ran during the fetch may have made the link."""
    source, folder = clips.make("film.mp4"), tmp_path / "out"
    folder.mkdir()
    (tmp_path / "private").write_text("untouched")
    (folder / "thumbs.vtt").symlink_to(tmp_path / "private")
    text = PlannedText("thumbs", "thumbs.vtt", "text/vtt", "WEBVTT\n")
    planned = replace(plan([FILM], probe(sandbox, source), threads=1), texts=(text,))
    with pytest.raises(MediaError) as refused:
        run(sandbox, planned, source, folder)
    assert refused.value.code == "output_undecodable"
    assert (tmp_path / "private").read_text() == "untouched"
