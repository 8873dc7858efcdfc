"""Built-in profiles: ready-made lists of outputs, chosen by name. Add new profiles to `_BUILT_IN`."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

from euterpe.domain.outputs import Audio, M4aOutput, Mp4Output, OutputSpec, Video
from euterpe.domain.text import one_of


@dataclass(frozen=True)
class Profile:
    name: str
    description: str
    outputs: tuple[OutputSpec, ...]


_BUILT_IN = (
    Profile(
        "h264-720p",
        "One MP4 that plays everywhere: H.264 at 720 lines, AAC at 128 kbit/s.",
        (
            Mp4Output(
                name="mp4", type="mp4", video=Video(codec="h264", height=720), audio=Audio(bitrate_kbps=128)
            ),
        ),
    ),
    Profile(
        "audio-aac",
        "The sound alone: one M4A, AAC at 128 kbit/s.",
        (M4aOutput(name="audio", type="m4a", audio=Audio(bitrate_kbps=128)),),
    ),
)

PROFILES: Mapping[str, Profile] = MappingProxyType({profile.name: profile for profile in _BUILT_IN})

ProfileName = Annotated[str, one_of(PROFILES)]
