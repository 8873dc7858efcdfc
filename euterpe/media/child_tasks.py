"""The tasks of the sandbox's children, in which PyAV looks into media. Nothing else may import it."""

import json
import os
import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import Any

import av

from euterpe.media.errors import MediaError
from euterpe.media.inspect_output import inspect
from euterpe.media.probe import probe

# PyAV imports some of itself when it first meets a kind of stream: by then no file can be opened any more.
for _module in pkgutil.walk_packages(av.__path__, "av."):
    if _module.name not in ("av.__main__", "av.about", "av.datasets"):
        import_module(_module.name)


def perform(task: str, arguments: dict[str, Any]) -> None:
    """Answers on stdout, in JSON."""
    try:
        answer = {"found": _TASKS[task](**arguments)}
    except MediaError as error:
        answer = {"error": [error.code, str(error)]}
    said = memoryview(json.dumps(answer).encode())
    while said:
        said = said[os.write(1, said) :]


_TASKS: dict[str, Callable[..., Any]] = {"probe": probe, "inspect": inspect}
