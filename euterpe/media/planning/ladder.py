"""Choose the rungs of an adaptive output. Leave out rungs of nearly the same size, and enlarge no picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from euterpe.domain.outputs import Rung
from euterpe.media.planning.picture import Size, fitted
from euterpe.media.planning.tree import PlanWarning

_AUTO = (2160, 1440, 1080, 720, 480, 360, 240)
# If the short side of the smaller rendition is more than this share of the larger one's, viewers cannot tell
# the two apart, so the second encode would be wasted.
_TWINS = 0.85


@dataclass(frozen=True)
class Step:
    """A rung with the size of its pictures."""

    rung: Rung
    size: Size


def steps(
    ladder: Sequence[Rung] | Literal["auto"], shown: Size, codec: str, output: str
) -> tuple[tuple[Step, ...], tuple[PlanWarning, ...]]:
    """Return the renditions to make, the largest first, and the warnings.

    There is a warning for each requested rung that is left out, or lowered to the size of the source.
    """
    wanted = _rungs(ladder, shown)
    made: list[Step] = []
    lost: list[PlanWarning] = []
    # Of the rungs at or above the height of the source, keep only the lowest, which is closest to the source.
    above = [rung for rung in wanted if rung.height >= shown.short]
    for rung in above[:-1]:
        lost.append(_dropped(rung, fitted(shown, rung.height, codec), output))
    for rung in (*above[-1:], *wanted[len(above) :]):
        size = fitted(shown, rung.height, codec)
        if made and size.short > _TWINS * made[-1].size.short and _rate(rung) == _rate(made[-1].rung):
            if ladder != "auto":
                lost.append(_dropped(rung, made[-1].size, output))
        else:
            made.append(Step(rung, size))
            if rung.height > shown.short and ladder != "auto":
                lost.append(_lowered(rung, size, output))
    return tuple(made), tuple(lost)


def _rate(rung: Rung) -> tuple[int | None, int | None]:
    return rung.bitrate_kbps, rung.crf


def _rungs(ladder: Sequence[Rung] | Literal["auto"], shown: Size) -> Sequence[Rung]:
    if ladder != "auto":
        return ladder
    below = [Rung(height=height) for height in _AUTO if height < shown.short]
    return [Rung(height=max(16, min(shown.short, _AUTO[0]))), *below]


def _dropped(rung: Rung, kept: Size, output: str) -> PlanWarning:
    return PlanWarning(
        "rung_dropped",
        output,
        f"the rung {rung.height} is left out: it would have nearly the size of {kept.width}×{kept.height}",
    )


def _lowered(rung: Rung, size: Size, output: str) -> PlanWarning:
    return PlanWarning(
        "rung_lowered",
        output,
        f"the rung {rung.height} has the size of the source, {size.width}×{size.height}: nothing is enlarged",
    )
