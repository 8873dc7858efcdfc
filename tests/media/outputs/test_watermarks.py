"""Tests that a viewer sees the watermark at the requested place and in its colours, in every output."""

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.media.outputs.product_path import Make, MakeMarked
from tests.media.readers.colours import shown_colour, shown_tags
from tests.media.readers.media import frames, plane
from tests.media.readers.pictures import picture_times
from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.colour_math import HLG, PQ, Triple, to_hdr, to_ycbcr
from tests.media.sources.colours import SDR_KINDS, hdr, rgb, sdr
from tests.media.sources.logos import COLOUR, FORMATS, URL, disc, flat, half_transparent, logo

FILM: dict[str, Any] = {"name": "film", "type": "mp4"}
LOGO: dict[str, Any] = {"source": {"url": URL}}
TOLERANCE = 8
Box = tuple[int, int, int, int]


def marked(output: Mapping[str, Any] = FILM, **settings: Any) -> dict[str, Any]:
    return {**output, "watermark": {**LOGO, **settings}}


def changed_box(path: Path, grey: float, *, number: int = 0) -> Box:
    """Return the left, top, right and bottom edge of the part of a picture whose luma differs from `grey`."""
    _, frame = list(frames(path))[number]
    rows, columns = np.nonzero(abs(plane(frame) - grey) > 8)
    return int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1


def middle(box: Box) -> tuple[int, int]:
    return (box[0] + box[2]) // 2, (box[1] + box[3]) // 2


def luma_of(grey: int) -> float:
    return 16 + 219 * grey / 255


def difference(found: Triple, wanted: Triple) -> float:
    return max(abs(a - b) for a, b in zip(found, wanted, strict=True))


# -- place and size

SHAPES: dict[str, tuple[Callable[[Sources], Path], tuple[int, int]]] = {
    "landscape": (flat, (320, 180)),
    "portrait": (partial(flat, width=180, height=320), (180, 320)),
    "odd": (partial(flat, width=321, height=181), (320, 180)),
    "wide pixels": (partial(flat, options="-aspect 32:9"), (640, 180)),
    "small": (partial(flat, width=128, height=72), (128, 72)),
}
# The position of the watermark: (0, 0) is the top left and (1, 1) the bottom right corner inside the margins.
PLACES = {
    **{"top_left": (0, 0), "top_right": (1, 0), "bottom_left": (0, 1), "bottom_right": (1, 1)},
    "center": (0.5, 0.5),
}


@pytest.mark.parametrize("position", PLACES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_watermark_is_where_it_was_requested(
    make_marked: MakeMarked, sources: Sources, shape: str, position: str
) -> None:
    source, (width, height) = SHAPES[shape]
    output = marked(position=position, width_percent=25, margin_percent=5)
    film = make_marked([output], source(sources), {URL: logo(sources)}) / "film.mp4"
    found, margin = changed_box(film, luma_of(128)), width * 0.05
    mark = (width * 0.25, width * 0.125)
    across, down = PLACES[position]
    left = margin + across * (width - 2 * margin - mark[0])
    top = margin + down * (height - 2 * margin - mark[1])
    wanted = (left, top, left + mark[0], top + mark[1])
    assert max(abs(a - b) for a, b in zip(found, wanted, strict=True)) <= 3, (found, wanted)


def test_the_watermark_of_a_turned_film_is_upright(make_marked: MakeMarked, sources: Sources) -> None:
    turned = sources.remuxed("flat-turned.mp4", flat(sources), "", before="-display_rotation 90")
    output = marked(position="top_left", width_percent=50, margin_percent=0)
    film = make_marked([output], turned, {URL: logo(sources)}) / "film.mp4"
    left, top, right, bottom = changed_box(film, luma_of(128))
    assert (left, top) == (0, 0)
    assert (abs(right - 90) <= 2, abs(bottom - 45) <= 2) == (True, True), (right, bottom)


def test_a_tall_watermark_fits_between_the_margins(make_marked: MakeMarked, sources: Sources) -> None:
    output = marked(position="center", width_percent=100, margin_percent=25)
    film = make_marked([output], flat(sources, 640, 180), {URL: logo(sources)}) / "film.mp4"
    left, top, right, bottom = changed_box(film, luma_of(128))
    assert (abs(top - 45) <= 2, abs(bottom - 135) <= 2) == (True, True), (top, bottom)
    assert abs((right - left) - 2 * (bottom - top)) <= 4


def test_the_watermark_is_in_the_picture_and_not_on_its_bars(
    make_marked: MakeMarked, sources: Sources
) -> None:
    output = marked({**FILM, "crop": {"left": 80, "right": 80}, "pad": {"aspect": "16:9"}}, margin_percent=0)
    film = make_marked([output], flat(sources), {URL: logo(sources)}) / "film.mp4"
    _, frame = next(frames(film))
    assert (frame.width, frame.height) == (320, 180)
    bars = plane(frame)[:, 242:]
    assert bars.max() <= 20, "there is something on the black bar"
    assert difference(shown_colour(film, 232, 174), COLOUR) <= TOLERANCE


# -- colours

LIKE_SOURCES: dict[str, Callable[[Sources], Path]] = {
    **{kind.name: partial(sdr, kind=kind) for kind in SDR_KINDS if kind.tagged is None},
    "rgb": partial(rgb, size=(320, 180)),
}


@pytest.mark.parametrize("name", LIKE_SOURCES)
def test_the_watermark_keeps_its_colour_in_each_kind_of_picture(
    make_marked: MakeMarked, sources: Sources, name: str
) -> None:
    output = marked(position="center", width_percent=50)
    film = make_marked([output], LIKE_SOURCES[name](sources), {URL: logo(sources)}) / "film.mp4"
    assert difference(shown_colour(film, 160, 90), COLOUR) <= TOLERANCE


@pytest.mark.parametrize("name", FORMATS)
def test_a_watermark_of_each_format_has_its_colour(
    make_marked: MakeMarked, sources: Sources, name: str
) -> None:
    output = marked(position="center", width_percent=50)
    film = make_marked([output], flat(sources), {URL: logo(sources, name)}) / "film.mp4"
    assert difference(shown_colour(film, 160, 90), COLOUR) <= TOLERANCE


@pytest.mark.parametrize("transfer", [PQ, HLG])
@pytest.mark.parametrize("codec", ["hevc", "av1"])
def test_white_has_203_nits_in_hdr(
    make_marked: MakeMarked, sources: Sources, transfer: int, codec: str
) -> None:
    output = marked({**FILM, "video": {"codec": codec, "hdr": "keep"}}, position="center", width_percent=50)
    film = make_marked([output], hdr(sources, transfer), {URL: logo(sources)}) / "film.mp4"
    _, first = next(frames(film))
    found = (
        float(plane(first)[90, 160]),
        float(plane(first, 1)[45, 80]),
        float(plane(first, 2)[45, 80]),
    )
    red, green, blue = (one / 255 for one in COLOUR)
    wanted = to_ycbcr(to_hdr((red, green, blue), transfer), shown_tags(film), bits=8)
    assert difference(found, wanted) <= TOLERANCE, (found, wanted)


def test_a_watermark_over_hdr_that_becomes_sdr_is_not_mapped(
    make_marked: MakeMarked, sources: Sources
) -> None:
    output = marked(position="center", width_percent=50)
    film = make_marked([output], hdr(sources, PQ), {URL: logo(sources)}) / "film.mp4"
    assert difference(shown_colour(film, 160, 90), COLOUR) <= TOLERANCE


# -- transparency


@pytest.mark.parametrize("name", ["alpha.png", "alpha.webp", "alpha.avif"])
def test_what_is_half_transparent_lets_half_of_the_picture_through(
    make_marked: MakeMarked, sources: Sources, name: str
) -> None:
    output = marked(position="center", width_percent=50)
    film = make_marked([output], flat(sources), {URL: half_transparent(sources, name)}) / "film.mp4"
    assert difference(shown_colour(film, 120, 90), COLOUR) <= TOLERANCE
    half: Triple = tuple((one + 128) / 2 for one in COLOUR)  # type: ignore[assignment]
    assert difference(shown_colour(film, 200, 90), half) <= TOLERANCE


@pytest.mark.parametrize("opacity", [0.25, 0.8])
def test_opacity_lets_the_picture_shine_through(
    make_marked: MakeMarked, sources: Sources, opacity: float
) -> None:
    output = marked(position="center", width_percent=50, opacity=opacity)
    film = make_marked([output], flat(sources), {URL: half_transparent(sources)}) / "film.mp4"
    for x, share in ((120, opacity), (200, opacity / 2)):
        wanted: Triple = tuple(share * one + (1 - share) * 128 for one in COLOUR)  # type: ignore[assignment]
        assert difference(shown_colour(film, x, 90), wanted) <= TOLERANCE


@pytest.mark.parametrize("width_percent", [15, 30, 100])
def test_invisible_colours_do_not_become_visible_at_the_edges(
    make_marked: MakeMarked, sources: Sources, width_percent: int
) -> None:
    """The disc is surrounded by transparent green pixels, which simple scaling would mix into its edge."""
    place = {"position": "center", "width_percent": width_percent, "margin_percent": 0}
    output = marked({**FILM, "video": {"crf": 1}}, **place)
    film = make_marked([output], flat(sources), {URL: disc(sources)}) / "film.mp4"
    _, first = next(frames(film))
    # The grey has no chroma, and the colour of the disc has a high Cr.
    assert (plane(first, 2) - 128).min() >= -2


# -- outputs

LADDER: dict[str, Any] = {"name": "stream", "type": "adaptive", "video": {"ladder": [180, 90]}}


def test_each_rendition_has_its_own_sharp_watermark(
    make_marked: MakeMarked, sources: Sources, tmp_path: Path
) -> None:
    outputs = [marked(LADDER, position="top_left", width_percent=25), FILM]
    folder = make_marked(outputs, flat(sources), {URL: logo(sources)})
    for name, width in (("180p", 320), ("90p", 160)):
        whole = tmp_path / f"{name}.mp4"
        parts = [folder / "stream" / f"{name}_init.mp4", *sorted(folder.glob(f"stream/{name}_0*.m4s"))]
        whole.write_bytes(b"".join(part.read_bytes() for part in parts))
        left, top, right, _ = changed_box(whole, luma_of(128))
        assert abs(right - left - width / 4) <= 2
        assert abs(left - 0.03 * width) <= 2
        assert abs(top - 0.03 * width) <= 2
    _, frame = next(frames(folder / "film.mp4"))
    assert abs(plane(frame) - luma_of(128)).max() <= 2, "the film has no watermark"


def test_a_smaller_output_does_not_inherit_the_watermark_of_a_larger_one(
    make_marked: MakeMarked, sources: Sources
) -> None:
    small = {**FILM, "name": "small", "video": {"height": 90}}
    outputs = [marked(FILM, position="top_left"), marked(small, position="bottom_right")]
    folder = make_marked(outputs, flat(sources), {URL: logo(sources)})
    assert changed_box(folder / "film.mp4", luma_of(128))[2] < 160
    assert changed_box(folder / "small.mp4", luma_of(128))[0] > 80


def test_two_watermarks_of_one_job_are_not_mixed_up(make_marked: MakeMarked, sources: Sources) -> None:
    other = {"source": {"url": "s3://in/other.png"}, "position": "center", "width_percent": 50}
    outputs = [marked(position="center", width_percent=50), {**FILM, "name": "other", "watermark": other}]
    drawn = "-f lavfi -i color=white:s=64x64 -frames:v 1"
    white = sources.get("white.png", lambda path: ffmpeg(f"{drawn} {path}"))
    folder = make_marked(outputs, flat(sources), {URL: logo(sources), "s3://in/other.png": white})
    assert difference(shown_colour(folder / "film.mp4", 160, 90), COLOUR) <= TOLERANCE
    assert difference(shown_colour(folder / "other.mp4", 160, 90), (255, 255, 255)) <= TOLERANCE


PICTURES: dict[str, tuple[dict[str, Any], str]] = {
    "jpeg": ({"name": "a", "type": "image", "at": ["50%"]}, "a/1.jpg"),
    "webp": ({"name": "a", "type": "image", "at": ["0s"], "format": "webp"}, "a/1.webp"),
    "avif": ({"name": "a", "type": "image", "at": ["0s"], "format": "avif"}, "a/1.avif"),
    "best": ({"name": "a", "type": "image", "at": "best"}, "a/1.jpg"),
    "gif": ({"name": "a", "type": "preview", "format": "gif"}, "a.gif"),
}


@pytest.mark.parametrize("kind", PICTURES)
def test_pictures_have_the_watermark(make_marked: MakeMarked, sources: Sources, kind: str) -> None:
    output, path = PICTURES[kind]
    folder = make_marked(
        [marked(output, position="center", width_percent=50)], flat(sources), {URL: logo(sources)}
    )
    _, first = next(frames(folder / path))
    pixels = first.to_ndarray(format="rgb24")
    assert difference(tuple(pixels[90, 160].astype(float)), COLOUR) <= 16
    assert difference(tuple(pixels[20, 20].astype(float)), (128, 128, 128)) <= TOLERANCE


def test_each_thumbnail_has_the_watermark(make_marked: MakeMarked, sources: Sources) -> None:
    output = {"name": "a", "type": "sprite", "interval_seconds": 1, "columns": 2}
    folder = make_marked(
        [marked(output, position="center", width_percent=50)], flat(sources), {URL: logo(sources)}
    )
    assert difference(shown_colour(folder / "a/1.jpg", 80, 45), COLOUR) <= 16


def test_an_average_rate_has_the_watermark_in_both_passes(make_marked: MakeMarked, sources: Sources) -> None:
    output = marked({**FILM, "video": {"bitrate_kbps": 300}}, position="center", width_percent=50)
    film = make_marked([output], flat(sources), {URL: logo(sources)}) / "film.mp4"
    assert difference(shown_colour(film, 160, 90), COLOUR) <= TOLERANCE


def test_times_do_not_change_and_every_picture_has_the_watermark(
    make: Make, make_marked: MakeMarked, sources: Sources
) -> None:
    """The time base of the pictures is 1001/24000. The watermark has another time base."""
    output = {**FILM, "start": 0.1}
    plain = make([output], flat(sources)) / "film.mp4"
    film = make_marked([marked(output)], flat(sources), {URL: logo(sources)}) / "film.mp4"
    assert picture_times(film) == picture_times(plain)
    boxes = {changed_box(film, luma_of(128), number=number) for number in range(len(picture_times(film)))}
    assert len(boxes) == 1


def test_the_same_job_makes_the_same_bytes(make_marked: MakeMarked, sources: Sources) -> None:
    outputs = [
        marked(LADDER),
        marked({**FILM, "video": {"codec": "hevc"}}),
        *(marked({**output, "name": name}) for name, (output, _) in PICTURES.items()),
    ]
    hashes = []
    for _ in range(2):
        folder = make_marked(outputs, flat(sources), {URL: half_transparent(sources)})
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        hashes.append([(path.name, sha256(path.read_bytes()).hexdigest()) for path in files])
    assert hashes[0] == hashes[1]
