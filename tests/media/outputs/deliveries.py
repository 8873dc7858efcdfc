"""Read the pictures and the sound of a film from each of its outputs: MP4, HLS, DASH."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.media.readers.media import Media
from tests.media.readers.pictures import flashes
from tests.media.readers.renditions import dash_renditions, hls_media, hls_variants
from tests.media.readers.sounds import beeps
from tests.media.readers.streams import streams

FILM: dict[str, Any] = {"name": "film", "type": "mp4"}
HLS: dict[str, Any] = {"name": "hls", "type": "hls", "segment_seconds": 2, "video": {"ladder": [90]}}
BOTH = (FILM, HLS | {"type": "adaptive"})  # the second output is HLS and DASH

SYNC_TOLERANCE_S = 0.002
_MASTER, _MANIFEST = "hls/master.m3u8", "hls/manifest.mpd"


@dataclass(frozen=True)
class Delivery:
    """A film as MP4, HLS or DASH. `sound` is None for a film without sound."""

    name: str
    pictures: Media
    sound: Media | None

    @property
    def heard(self) -> Media:
        assert self.sound is not None, f"{self.name} has no sound"
        return self.sound


def deliveries(folder: Path) -> list[Delivery]:
    """Return the deliveries of the film in the folder. For a ladder, take the first rendition."""
    found = list(_deliveries(folder))
    assert found, f"nothing was made in {folder}"
    return found


def _deliveries(folder: Path) -> Iterator[Delivery]:
    if (film := folder / "film.mp4").exists():
        has_sound = any(stream.kind == "audio" for stream in streams(film))
        yield Delivery("mp4", film, film if has_sound else None)
    if (master := folder / _MASTER).exists():
        sounds = [rendition.media for rendition in hls_media(master)]
        yield Delivery("hls", hls_variants(master)[0].media, sounds[0] if sounds else None)
    if (manifest := folder / _MANIFEST).exists():
        sounds = [rendition.media for rendition in dash_renditions(manifest, "audio")]
        yield Delivery("dash", dash_renditions(manifest, "video")[0].media, sounds[0] if sounds else None)


def sync_offsets(pictures: Media, sound: Media) -> list[float]:
    """Return the time from each flash to its beep."""
    seen, heard = flashes(pictures), beeps(sound)
    assert len(seen) == len(heard), f"flashes at {seen}, beeps at {heard}"
    return [beep - flash for flash, beep in zip(seen, heard, strict=True)]
