"""Measure the cost of VMAF during an encode, and the cost and the error of a search for a target quality."""

from __future__ import annotations

from ci.media_parts.films import film
from ci.media_parts.measuring import Made, Product, output
from euterpe.bench.figures import BenchFailed, Figure

_SECONDS, _ROUNDS = 12, 2
# The samples of a search are 2 % of the film, but at least 3 s in total. In a film shorter than 150 s, the
# samples would be more than 2 %.
_SEARCHED_SECONDS, _TARGET = 180, 90.0


def measure(product: Product) -> list[Figure]:
    found = list[Figure]()
    for _ in range(_ROUNDS):
        found += [_inside(product), *_searched(product)]
    return found


def _inside(product: Product) -> Figure:
    source, plain = film(720, _SECONDS), {"name": "film", "type": "mp4", "audio": None}
    measured = product.make(source, [output(**plain, measure=["vmaf"])]).encode.cpu
    bare = product.make(source, [output(**plain)]).encode.cpu
    return Figure(
        f"a film of {_SECONDS} s with VMAF, compared with the same film without VMAF",
        "CPU s",
        measured,
        bare,
        at_most=1.3,
    )


def _searched(product: Product) -> list[Figure]:
    source, plain = film(360, _SEARCHED_SECONDS), {"name": "film", "type": "mp4", "audio": None}
    searched = product.make(source, [output(**plain, video={"target": {"vmaf": _TARGET}})])
    known = _quality(searched)
    again = {**plain, "video": {"crf": known["crf"]}, "measure": ["vmaf"]}
    encode = product.make(source, [output(**again)]).encode.cpu
    bare = product.make(source, [output(**plain, video={"crf": known["crf"]})]).encode.cpu
    error = abs(known["vmaf"] - known["predicted_vmaf"])
    long = f"a film of {_SEARCHED_SECONDS} s with VMAF, compared with the same film without VMAF"
    return [
        Figure(long, "CPU s", encode, bare, at_most=1.3),
        Figure(
            "the search, compared with the encode with VMAF",
            "CPU s",
            searched.encode.cpu - encode,
            encode,
            at_most=0.15,
        ),
        Figure("the error of the predicted VMAF", "points", error, at_most=1.0),
    ]


def _quality(made: Made) -> dict[str, float]:
    (track,) = made.verified.files[0].tracks
    if track.quality is None:
        raise BenchFailed("the film of the search has no measured quality")
    return dict(track.quality)
