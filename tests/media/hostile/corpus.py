"""The hostile files by name: 300 of them in each run of the tests, and all of them with `ci/test --soak`.

The bytes of a file depend only on its name. `python -m tests.media.hostile NAME FILE` writes one file.
"""

from collections.abc import Callable, Mapping
from zlib import crc32

from tests.media.hostile import disguises, matroska_cases, mp4, sounds, transport_streams
from tests.media.hostile.damage import WAYS, damaged
from tests.media.hostile.originals import RECIPES, Originals

Build = Callable[[Originals], bytes]

_GROUPS: Mapping[str, Mapping[str, Build]] = {
    "mp4": mp4.cases(),
    "matroska": matroska_cases.cases(),
    "mpegts": transport_streams.cases(),
    "sound": sounds.cases(),
    "disguised": disguises.cases(),
}
_REFERRING = {
    "mp4": mp4.references(),
    "matroska": matroska_cases.references(),
    "list": disguises.references(),
}
# Each kind of damage is applied with two seeds.
_DAMAGED_EACH = 2 * len(WAYS)
# Each run of the tests uses one in three of the crafted files, and one in twelve of the damaged files.
_ONE_OF, _ONE_OF_DAMAGED = 3, 12


def _damaged(name: str, number: int) -> Build:
    return lambda originals: damaged(originals(name), name, number)


# These files name another file or a host. No process is allowed to open this file or to call this host.
REFERENCES: Mapping[str, Build] = {
    f"{group}/{name}": build for group, builds in _REFERRING.items() for name, build in builds.items()
}
_CRAFTED = {f"{group}/{name}": build for group, builds in _GROUPS.items() for name, build in builds.items()}
_DAMAGED = {
    f"damaged/{name}-{number:02}": _damaged(name, number)
    for name in RECIPES
    for number in range(_DAMAGED_EACH)
}
# These small files declare a duration of hours, because their sample rate is 1 Hz. Only the timeout of the
# job ends the encode of such a file.
ENDLESS = frozenset(
    {
        "sound/flac-of-1-hertz-and-0-samples",
        "sound/flac-of-1-hertz-and-68719476735-samples",
        "sound/wav-of-1-hertz",
    }
)
FILES: Mapping[str, Build] = {**REFERENCES, **_CRAFTED, **_DAMAGED}


def _is_chosen(name: str, one_of: int) -> bool:
    """Return whether the test suite includes the file. The choice does not depend on other files."""
    return crc32(name.encode()) % one_of == 0


IN_SUITE = (
    *REFERENCES,
    *(name for name in _CRAFTED if _is_chosen(name, _ONE_OF)),
    *(name for name in _DAMAGED if _is_chosen(name, _ONE_OF_DAMAGED)),
)
IN_SOAK_ONLY = tuple(name for name in FILES if name not in set(IN_SUITE))
