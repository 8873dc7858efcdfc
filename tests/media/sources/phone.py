"""Make a clip like that of a phone in portrait orientation, with numbered pictures and sound."""

from pathlib import Path

import numpy as np

from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.number_blocks import draw
from tests.media.sources.planes import X264, encode, grey

SECONDS, FPS = 4, 25
SHOWN = (360, 640)


def portrait_clip(sources: Sources) -> Path:
    """Return a clip of 100 pictures that are coded in 640x360. Players turn the clip and show 360x640."""

    def generate(path: Path) -> None:
        # `rot90` turns by 90 degrees counter-clockwise, which reverses the turn of the player.
        turned = [grey(np.rot90(draw(number, *SHOWN))) for number in range(SECONDS * FPS)]
        unrotated = path.with_name(f"unrotated-{path.name}")
        sound = f"-f lavfi -i sine=440:duration={SECONDS}"
        encode(unrotated, turned, str(FPS), size=SHOWN[::-1], inputs=sound, arguments=f"{X264} -c:a aac")
        ffmpeg(f"-display_rotation 270 -i {unrotated} -c copy {path}")

    return sources.get("portrait-clip.mov", generate)
