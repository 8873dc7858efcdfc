"""The tasks that sandboxed children run with PyAV. Only the fork server may import this module."""

import json
import os
import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import Any

import av

from euterpe.media.encoding.inspect_output import inspect
from euterpe.media.encoding.packet_digests import packets_of_files, packets_of_source
from euterpe.media.encoding.quality_logs import count_pictures, read_quality_logs
from euterpe.media.encoding.same_samples import same_samples
from euterpe.media.errors import MediaError
from euterpe.media.packaging.decode_times import align_decode_times, drop_edit_list
from euterpe.media.packaging.disabled_tracks import disable_text_tracks
from euterpe.media.packaging.first_pictures import decode_first_pictures
from euterpe.media.packaging.keyframe_file import write_keyframes
from euterpe.media.packaging.segments import read_segments
from euterpe.media.packaging.sound_segments import decode_sound_segments
from euterpe.media.packaging.tails import fold_tail
from euterpe.media.source.keyframes import keyframes
from euterpe.media.source.probe import probe, probe_beginning
from euterpe.media.source.subtitles import subtitles
from euterpe.media.source.watermark import watermark

# PyAV imports some modules only when it first reads a stream of a certain type. At that time a child can no
# longer open files, so import every module here.
for _module in pkgutil.walk_packages(av.__path__, "av."):
    if _module.name not in ("av.__main__", "av.about", "av.datasets"):
        import_module(_module.name)


def perform(task: str, arguments: dict[str, Any]) -> None:
    """Run a task and write its result to stdout as JSON."""
    try:
        answer = {"found": _TASKS[task](**arguments)}
    except MediaError as error:
        answer = {"error": [error.code, str(error)]}
    unwritten = memoryview(json.dumps(answer).encode())
    while unwritten:
        unwritten = unwritten[os.write(1, unwritten) :]


_TASKS: dict[str, Callable[..., Any]] = {
    "probe": probe,
    "probe_beginning": probe_beginning,
    "keyframes": keyframes,
    "subtitles": subtitles,
    "watermark": watermark,
    "inspect": inspect,
    "same_samples": same_samples,
    "packets_of_source": packets_of_source,
    "packets_of_files": packets_of_files,
    "read_quality_logs": read_quality_logs,
    "count_pictures": count_pictures,
    "read_segments": read_segments,
    "decode_first_pictures": decode_first_pictures,
    "decode_sound_segments": decode_sound_segments,
    "align_decode_times": align_decode_times,
    "drop_edit_list": drop_edit_list,
    "disable_text_tracks": disable_text_tracks,
    "fold_tail": fold_tail,
    "write_keyframes": write_keyframes,
}
