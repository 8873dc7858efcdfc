"""Make presentations: encode with the ffmpeg under test and the arguments of a plan, then package."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from euterpe.media.ffmpeg import find_ffmpeg
from euterpe.media.packaging.dash import dash_manifest
from euterpe.media.packaging.finish import finish_rendition
from euterpe.media.packaging.hls import HlsKey, hls_files
from euterpe.media.packaging.rendition import (
    AudioRendition,
    PackagedRendition,
    TextFile,
    VideoRendition,
    rendition_of,
)
from euterpe.media.packaging.segment_facts import RenditionFacts
from euterpe.media.packaging.webvtt import Cue, package_subtitles
from euterpe.media.sandbox.sandbox import Sandbox

SECONDS = 13.013
PICTURES = 390
SEGMENT_SECONDS = 4
SEGMENTS = 3  # the fourth segment has only one second, so it is appended to the third segment
CUES = (Cue(1, 3, "A & B <i>"), Cue(3.5, 9, "two\n\nlines --> here"))

# The encoders have the same options as in plans: closed GOPs, and no keyframes at scene cuts.
ENCODERS = {
    "h264": "-c:v libx264 -preset veryfast -x264-params scenecut=0",
    "hevc": "-c:v libx265 -preset ultrafast -tag:v hvc1 -x265-params log-level=error:open-gop=0:scenecut=0",
    "av1": "-c:v libsvtav1 -preset 12",
    "vp9": "-c:v libvpx-vp9 -deadline realtime -cpu-used 8",
    "aac": "-c:a aac",
    "opus": "-c:a libopus",
    "flac": "-c:a flac",
    "mp3": "-c:a libmp3lame",
}
_CMAF = (
    "-f dash -dash_segment_type mp4 -use_template 1 -use_timeline 0 "
    "-format_options movflags=+cmaf+skip_sidx -map_metadata -1 -fflags +bitexact -flags:v +bitexact"
)


@dataclass(frozen=True)
class Sound:
    name: str
    codec: str = "aac"
    language: str | None = None
    title: str | None = None
    hertz: int = 440
    channels: int = 2


@dataclass(frozen=True)
class Recipe:
    """The parameters of a presentation. The presentation has a rung for each of `widths`."""

    video: str | None = "h264"
    sounds: tuple[Sound, ...] = (
        Sound("audio_en", language="eng"),
        Sound("audio_de", language="ger", hertz=880),
    )
    widths: tuple[int, ...] = (320, 160)
    rate: str = "30000/1001"
    seconds: float = SECONDS
    segment_seconds: float = SEGMENT_SECONDS
    options: str = ""  # more options of the video encoder, in addition to `ENCODERS`
    picture: str = "format=yuv420p"


@dataclass(frozen=True)
class Presentation:
    """A packaged folder."""

    folder: Path
    facts: Mapping[str, RenditionFacts]
    renditions: tuple[PackagedRendition, ...]
    files: tuple[TextFile, ...] = field(repr=False)

    @property
    def videos(self) -> list[VideoRendition]:
        return [one for one in self.renditions if isinstance(one, VideoRendition)]

    @property
    def sounds(self) -> list[AudioRendition]:
        return [one for one in self.renditions if isinstance(one, AudioRendition)]

    def text(self, name: str) -> str:
        return next(file.text for file in self.files if file.name == name)


def encode(recipe: Recipe, folder: Path) -> list[str]:
    """Encode the segments of all renditions, and return their names. The first rung is the largest."""
    folder.mkdir(parents=True, exist_ok=True)
    rungs = [f"{width * 9 // 16 // 2 * 2}p" for width in recipe.widths] if recipe.video else []
    inputs = f"-f lavfi -i testsrc2=size=320x180:rate={recipe.rate}:duration={recipe.seconds}"
    split = f"[0:v]{recipe.picture},split={len(rungs)}" + "".join(
        f"[s{place}]" for place in range(len(rungs))
    )
    scales = [f"[s{place}]scale={width}:-2,setsar=1[v{place}]" for place, width in enumerate(recipe.widths)]
    words = ["-filter_complex", ";".join([split, *scales])] if rungs else []
    for place, rung in enumerate(rungs):
        grid = f"-force_key_frames expr:gte(t,n_forced*{recipe.segment_seconds:g})"
        words += f"-map [v{place}] {grid} -fps_mode passthrough -enc_time_base demux".split()
        words += f"{ENCODERS[recipe.video or '']} {recipe.options}".split()
        words += _muxer(rung, recipe)
    for place, sound in enumerate(recipe.sounds, start=1):
        inputs += f" -f lavfi -i sine={sound.hertz}:sample_rate=48000:duration={recipe.seconds}"
        words += f"-map {place}:a -ac {sound.channels} {ENCODERS[sound.codec]}".split()
        words += _muxer(sound.name, recipe)
    command = [str(find_ffmpeg()), "-loglevel", "error", "-nostdin", *inputs.split(), *words]
    subprocess.run(command, check=True, timeout=120, capture_output=True, cwd=folder)
    return [*rungs, *(sound.name for sound in recipe.sounds)]


def _muxer(name: str, recipe: Recipe) -> list[str]:
    names = ["-init_seg_name", f"{name}_init.mp4", "-media_seg_name", f"{name}_$Number%05d$.m4s"]
    return [*_CMAF.split(), "-seg_duration", f"{recipe.segment_seconds:g}", *names, "-y", f"{name}.mpd"]


def package(
    sandbox: Sandbox,
    recipe: Recipe,
    folder: Path,
    *,
    cues: Sequence[Cue] = (),
    trick_play: bool = False,
    key: HlsKey | None = None,
) -> Presentation:
    """Encode and package a presentation, and write its playlists to the folder."""
    names = encode(recipe, folder)
    facts = {
        name: finish_rendition(
            sandbox,
            folder,
            name,
            segment_seconds=recipe.segment_seconds,
        )
        for name in names
    }
    labels = {sound.name: (sound.language, sound.title) for sound in recipe.sounds}
    renditions: list[PackagedRendition] = [
        rendition_of(
            name,
            facts[name],
            language=labels.get(name, (None, None))[0],
            title=labels.get(name, (None, None))[1],
            is_default=bool(recipe.sounds) and name == recipe.sounds[0].name,
        )
        for name in names
    ]
    texts: tuple[TextFile, ...] = ()
    if cues:
        subtitles = package_subtitles(
            cues,
            name="subs_en",
            segment_seconds=recipe.segment_seconds,
            duration_seconds=recipe.seconds,
            language="eng",
        )
        renditions.append(subtitles.rendition)
        texts = subtitles.files
    files = (*texts, *hls_files(renditions, trick_play=trick_play, key=key), dash_manifest(renditions))
    for file in files:
        (folder / file.name).write_text(file.text)
    return Presentation(folder, facts, tuple(renditions), files)


@pytest.fixture(scope="session")
def film(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Presentation:
    """Return a film with two rungs of H.264, two languages in AAC and Opus, subtitles and trick play."""
    sounds = (
        Sound("audio_en", language="eng"),
        Sound("audio_de", language="ger", hertz=880, channels=1),
        Sound("audio_en_2", codec="opus", language="eng"),
        Sound("audio_de_2", codec="opus", language="ger", hertz=880, channels=1),
    )
    folder = tmp_path_factory.mktemp("film")
    return package(sandbox, Recipe(sounds=sounds), folder, cues=CUES, trick_play=True)
