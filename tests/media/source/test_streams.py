"""Tests of the facts in headers and tags: languages, titles, dispositions, layouts, profiles, chapters."""

import unicodedata
from pathlib import Path
from typing import NoReturn, cast

import av
import pytest
from av.container import InputContainer
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.media.source.media_info import LONGEST_TITLE, Chapter, Title
from euterpe.media.source.streams import chapters, title
from tests.media.clips import Clips
from tests.media.media_steps import probe

_FILM = "-f lavfi -i testsrc2=size=160x90:rate=25:duration=1"
_SOUND = "-f lavfi -i sine=440:duration=1"
_X264 = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p"
_TITLE = TypeAdapter(Title)


@pytest.fixture
def subtitles(tmp_path: Path) -> Path:
    path = tmp_path / "subtitles.srt"
    path.write_text("1\n00:00:00,000 --> 00:00:00,900\nBonjour\n")
    return path


def test_languages_titles_and_dispositions_are_read(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, subtitles: Path
) -> None:
    path = tmp_path / "film.mkv"
    clips.encode(
        f"{_FILM} {_SOUND} {_SOUND} -i {subtitles} -map 0 -map 1 -map 2 -map 3 {_X264} -c:a aac -c:s srt"
        " -metadata:s:1 language=eng -metadata:s:2 language=ger -metadata:s:2 title=Kommentar"
        " -metadata:s:3 language=fre -disposition:1 0 -disposition:2 default -disposition:3 forced",
        path,
    )
    info = probe(sandbox, path)
    assert [(one.kind, one.codec, one.language, one.title) for one in info.streams] == [
        ("video", "h264", None, None),
        ("audio", "aac", "eng", None),
        ("audio", "aac", "ger", "Kommentar"),
        ("subtitle", "subrip", "fre", None),
    ]
    assert [(one.is_default, one.is_forced) for one in info.streams[1:]] == [
        (False, False),
        (True, False),
        (False, True),
    ]
    assert info.audio is info.streams[2]
    assert [one["language"] for one in info.document()["streams"]] == [None, "eng", "ger", "fre"]


@pytest.mark.parametrize(
    ("name", "coded", "has_alpha"),
    [
        ("film.mov", "-c:v qtrle -pix_fmt argb", True),
        ("film.mov", "-c:v prores_ks -profile:v 4444 -pix_fmt yuva444p10le", True),
        ("film.webm", "-c:v libvpx-vp9 -deadline realtime -pix_fmt yuva420p", True),
        ("film.mov", "-c:v qtrle -pix_fmt rgb24", False),
        ("film.mp4", _X264, False),
    ],
)
def test_transparency_is_read(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, name: str, coded: str, *, has_alpha: bool
) -> None:
    path = tmp_path / name
    clips.encode(f"-f lavfi -i color=red@0.5:s=64x48:d=0.2,format=rgba {coded}", path)
    video = probe(sandbox, path).video
    assert video is not None
    assert video.has_alpha is has_alpha


@pytest.mark.parametrize(
    ("name", "languages"),
    [
        ("film.mp4", {"deu": "deu", "und": None}),
        ("film.mkv", {"pt-BR": "pt-br", "ENG": "eng", "nonsense": None, "../x": None, "und": None}),
        ("film.ts", {"eng,fra": "eng"}),
        ("film.ogg", {"en": "en"}),
    ],
)
def test_a_language_is_a_code_or_unknown(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, name: str, languages: dict[str, str | None]
) -> None:
    path, codec = tmp_path / name, "libopus" if name.endswith(".ogg") else "aac"
    for tag, language in languages.items():
        clips.encode(f"{_SOUND} -c:a {codec} -metadata:s:0 language={tag}", path)
        assert probe(sandbox, path).streams[0].language == language


@pytest.mark.parametrize("name", ["film.mkv", "film.mp4", "film.avi"])
def test_a_tag_may_be_in_any_encoding(clips: Clips, sandbox: Sandbox, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    clips.encode(
        f"{_FILM} {_SOUND} -metadata title=ABCDEFGH -metadata:s:1 title=ABCDEFGH {_X264} -c:a libmp3lame",
        path,
    )
    film = path.read_bytes()
    assert b"ABCDEFGH" in film
    path.write_bytes(film.replace(b"ABCDEFGH", b"Caf\xe9 \x01\xff\xfe"))
    info = probe(sandbox, path)
    assert [one.kind for one in info.streams] == ["video", "audio"]
    assert info.streams[1].title in (None, "Caf\ufffd \ufffd\ufffd")


@pytest.mark.parametrize(
    ("coded", "shown"),
    [
        ("-ac 2 -c:a aac -f mp4", ("stereo", 2)),
        ("-af pan=5.1|c0=c0 -c:a flac -f matroska", ("5.1", 6)),
        ("-af pan=5.1(side)|c0=c0 -c:a ac3 -f matroska", ("5.1(side)", 6)),
        ("-c:a pcm_s16le -f wav", (None, 1)),  # this WAV header has only the number of channels
    ],
)
def test_the_layout_of_the_channels_is_read(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, coded: str, shown: tuple[str | None, int]
) -> None:
    clips.encode(f"{_SOUND} {coded}", tmp_path / "sound")
    audio = probe(sandbox, tmp_path / "sound").audio
    assert audio is not None
    assert (audio.layout, audio.channels) == shown


def test_profile_depth_and_bit_rate_are_read(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    clips.encode(f"{_FILM} {_SOUND} -c:v libx264 -pix_fmt yuv422p10le -c:a aac -b:a 96k", path)
    video, audio = probe(sandbox, path).streams
    assert (video.profile, video.bit_depth, audio.profile) == ("High 4:2:2", 10, "LC")
    assert video.bit_rate is not None
    assert video.bit_rate == pytest.approx(video_bytes(path) * 8, rel=0.1)
    assert audio.bit_rate == pytest.approx(96_000, rel=0.5)


def video_bytes(path: Path) -> int:
    with av.open(str(path)) as container:
        return sum(packet.size for packet in container.demux(video=0))


def test_chapters_are_read(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    tags, path = tmp_path / "tags", tmp_path / "film.mp4"
    tags.write_text(
        ";FFMETADATA1\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=400\ntitle=Vorspann\n"
        "[CHAPTER]\nTIMEBASE=1/1000\nSTART=400\nEND=1000\n"
    )
    clips.encode(f"{_FILM} -i {tags} -map_metadata 1 {_X264}", path)
    first, second = probe(sandbox, path).chapters
    assert first == Chapter(0.0, 0.4, "Vorspann")
    assert (second.start_seconds, second.end_seconds) == (0.4, 1.0)


class _TooManyChapters:
    def chapters(self) -> NoReturn:
        raise MemoryError


def test_more_chapters_than_fit_into_memory_are_left_out() -> None:
    assert list(chapters(cast(InputContainer, _TooManyChapters()))) == []


@given(st.text(st.characters(codec="utf-8"), max_size=500))
def test_a_title_is_always_one_that_the_worker_takes(text: str) -> None:
    if (line := title(text)) is not None:
        assert _TITLE.validate_python(line) == line
        assert len(line) <= LONGEST_TITLE


@pytest.mark.parametrize(
    ("tag", "line"),
    [
        ("", None),
        (" \n\t ", None),
        ("\x1b[31m", "[31m"),
        (" two\n lines\r\n", "two lines"),
        ("\u202egpj.exe", "gpj.exe"),
        ("e\u0301", "\u00e9"),
        ("x" * 10_000, "x" * LONGEST_TITLE),
        ("\u0301" * 100_000, unicodedata.normalize("NFC", "\u0301" * LONGEST_TITLE)),
    ],
    ids=lambda value: ascii(value)[:12],
)
def test_a_title_is_a_short_line(tag: str, line: str | None) -> None:
    assert title(tag) == line


@pytest.mark.parametrize(
    "tag", ["1:2", "a:b:c", "::", "9" * 400 + ":0:0", "nan:nan:nan", "0:0:nan", "-1:0:0"]
)
def test_a_duration_tag_that_is_none_does_no_harm(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, tag: str
) -> None:
    path = tmp_path / "film.mkv"
    clips.encode(f"{_SOUND} -c:a flac -metadata:s:0 DURATIOM={tag}", path)
    path.write_bytes(path.read_bytes().replace(b"DURATION", b"DURATIOX").replace(b"DURATIOM", b"DURATION"))
    assert probe(sandbox, path).duration_seconds == pytest.approx(1.0, abs=0.01)
