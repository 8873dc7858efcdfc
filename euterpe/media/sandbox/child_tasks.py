"""The tasks that sandboxed children run with PyAV. Only the fork server may import this module."""

import json
import os
import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import Any

import av

from euterpe.media.encoding.inspect_output import inspect
from euterpe.media.errors import MediaError
from euterpe.media.packaging.decode_times import align_decode_times, drop_edit_list
from euterpe.media.packaging.segments import read_segments
from euterpe.media.packaging.tails import fold_tail
from euterpe.media.source.keyframes import keyframes
from euterpe.media.source.probe import probe
from euterpe.media.source.subtitles import subtitles

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
    "keyframes": keyframes,
    "subtitles": subtitles,
    "inspect": inspect,
    "read_segments": read_segments,
    "align_decode_times": align_decode_times,
    "drop_edit_list": drop_edit_list,
    "fold_tail": fold_tail,
}
