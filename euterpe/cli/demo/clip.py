"""Make the clip of the demo: a test picture that shows its time, sound in two languages, and subtitles."""

import subprocess
from pathlib import Path

SECONDS = 20
_TIMEOUT_S = 60.0
_PICTURE = f"testsrc=size=1280x720:rate=30:duration={SECONDS}"
_PITCHES = {"eng": 330, "deu": 440}


def make_clip(folder: Path) -> Path:
    """Write `sample.mp4` into the folder, and return its path."""
    from euterpe.media.ffmpeg import find_ffmpeg

    clip = folder / "sample.mp4"
    inputs = ["-f", "lavfi", "-i", _PICTURE]
    maps = ["-map", "0:v"]
    for place, (language, hertz) in enumerate(_PITCHES.items()):
        inputs += ["-f", "lavfi", "-i", f"sine=frequency={hertz}:beep_factor=4:duration={SECONDS}"]
        maps += ["-map", f"{place + 1}:a", f"-metadata:s:a:{place}", f"language={language}"]
    inputs += ["-f", "srt", "-i", "pipe:0"]
    maps += ["-map", f"{len(_PITCHES) + 1}:s", "-metadata:s:s:0", "language=eng"]
    codecs = ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "30"]
    codecs += ["-c:a", "aac", "-c:s", "mov_text"]
    command = [str(find_ffmpeg()), "-nostdin", "-loglevel", "error", *inputs, *maps, *codecs, str(clip)]
    subprocess.run(  # noqa: S603  no argument from outside
        command, input=_subtitles(), text=True, check=True, timeout=_TIMEOUT_S
    )
    return clip


def _subtitles() -> str:
    """Return subtitles in SRT form, with a cue every two seconds."""
    cues = (
        f"{number + 1}\n00:00:{second:02},000 --> 00:00:{second + 2:02},000\nsecond {second}\n"
        for number, second in enumerate(range(0, SECONDS, 2))
    )
    return "\n".join(cues)
