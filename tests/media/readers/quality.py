"""Measure the quality of a finished file: ffmpeg compares each picture, and NumPy computes the PSNR."""

import re
import subprocess
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

from euterpe.media.ffmpeg import find_ffmpeg

_SUMMARIES = {
    "libvmaf": r"VMAF score: ([0-9.]+)",
    "ssim": r"SSIM Y:([0-9.]+)",
    "xpsnr": r"XPSNR +y: ([0-9.]+)",
}
_TIMEOUT_S = 120.0


def vmaf(film: Path, reference: Path) -> float:
    return _summary("libvmaf", film, reference)


def ssim(film: Path, reference: Path) -> float:
    return _summary("ssim", film, reference)


def xpsnr(film: Path, reference: Path) -> float:
    return _summary("xpsnr", reference, film)


def psnr(film: Path, reference: Path) -> float:
    """Return the PSNR of the luma, computed from the mean of the squared errors of all pictures."""
    pairs = list(zip(_lumas(film), _lumas(reference), strict=True))
    error = np.mean([np.mean((one.astype(float) - other) ** 2) for one, other in pairs])
    return float(10 * np.log10(255**2 / error))


def _lumas(path: Path) -> list[npt.NDArray[np.uint8]]:
    with av.open(str(path)) as film:
        return [
            np.asarray(picture.to_ndarray(), np.uint8)[: picture.height] for picture in film.decode(video=0)
        ]


def _summary(name: str, first: Path, second: Path) -> float:
    graph = f"[0:v]setpts=PTS-STARTPTS[a];[1:v]setpts=PTS-STARTPTS[b];[a][b]{name}"
    command = [str(find_ffmpeg()), "-nostdin", "-i", str(first), "-i", str(second), "-lavfi", graph]
    done = subprocess.run(
        [*command, "-f", "null", "-"], capture_output=True, timeout=_TIMEOUT_S, check=True, text=True
    )
    found = re.search(_SUMMARIES[name], done.stderr)
    assert found is not None, done.stderr
    return float(found[1])
