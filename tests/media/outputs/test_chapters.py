"""Tests of the chapters of a film and of its parts."""

from pathlib import Path
from typing import Any

import pytest

from tests.media.outputs.product_path import Make
from tests.media.readers.media import opened
from tests.media.sources.cache import Sources, ffmpeg

CHAPTERS = ((0.0, 0.8, "one"), (0.8, 2.2, "two"), (2.2, 3.0, "three"))


def with_chapters(sources: Sources, container: str) -> Path:
    """Return a film of three seconds with three chapters."""

    def generate(path: Path) -> None:
        text = path.with_name(f"{path.name}.txt")
        rows = [
            f"[CHAPTER]\nTIMEBASE=1/1000\nSTART={start * 1000:.0f}\nEND={end * 1000:.0f}\ntitle={title}\n"
            for start, end, title in CHAPTERS
        ]
        text.write_text(";FFMETADATA1\n" + "".join(rows))
        film = "-f lavfi -i testsrc2=size=160x90:rate=25:duration=3 -f lavfi -i sine=440:duration=3"
        codecs = "-c:v libx264 -preset ultrafast -g 10 -pix_fmt yuv420p -c:a aac"
        ffmpeg(f"{film} -i {text} -map 0 -map 1 -map_chapters 2 {codecs} {path}")

    return sources.get(f"chapters.{container}", generate)


def chapters(path: Path) -> list[tuple[float, float, str]]:
    with opened(path) as container:
        return [
            (float(one["start"] * tick), float(one["end"] * tick), one["metadata"].get("title", ""))
            for one in container.chapters()
            if (tick := one["time_base"]) is not None
        ]


PARTS: list[tuple[dict[str, float], list[tuple[float, float, str]]]] = [
    ({}, list(CHAPTERS)),
    ({"start": 0.4, "end": 2.0}, [(0.0, 0.4, "one"), (0.4, 1.6, "two")]),
    ({"start": 1.0}, [(0.0, 1.2, "two"), (1.2, 2.0, "three")]),
    ({"end": 0.6}, [(0.0, 0.6, "one")]),
]


@pytest.mark.parametrize("container", ["mp4", "mkv"])
@pytest.mark.parametrize("place", range(len(PARTS)))
@pytest.mark.parametrize("kind", ["mp4", "mov", "webm"])
def test_the_chapters_of_a_part_lie_within_it(
    make: Make, sources: Sources, container: str, place: int, kind: str
) -> None:
    """An earlier version kept chapters after the end of the part, so they were beyond the film's end."""
    part, expected = PARTS[place]
    output: dict[str, Any] = {"name": "film", "type": kind, "metadata": "keep", "video": {"height": 90}}
    found = chapters(make([{**output, **part}], with_chapters(sources, container)) / f"film.{kind}")
    assert [title for _, _, title in found] == [title for _, _, title in expected]
    for (start, end, _), (right_start, right_end, _) in zip(found, expected, strict=True):
        assert (start, end) == pytest.approx((right_start, right_end), abs=0.05)
