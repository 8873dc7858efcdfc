"""Tests that a viewer sees the colours of the source, whatever numbers and tags the source has."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from euterpe.domain.codecs import codecs_for
from tests.media.outputs.deliveries import FILM
from tests.media.outputs.product_path import Make
from tests.media.readers.colours import colour_tags, mediainfo_tags, patch_colours, patch_values
from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.colour_math import (
    BT601,
    BT2020,
    DISPLAY_P3,
    EBU3213,
    HLG,
    LINEAR,
    LOG,
    LOG_SQRT,
    PQ,
    UNSPECIFIED,
    YCGCO,
    Colours,
    Triple,
    from_ycbcr,
    to_hdr,
    to_ycbcr,
)
from tests.media.sources.colours import PATCHES, SDR_KINDS, hdr, hdr_greys, hdr_p3, lossless, rgb, sdr

TOLERANCE = 8
LEAST_LIGHT = {LOG: 0.01, LOG_SQRT: 0.01 / 10**0.5}  # the least light of these transfers, as a share of white
VALUE_TOLERANCE = 2  # of Y, Cb and Cr in 8 bits
# Players do not agree on the primaries of a small picture without tags, so the tolerance is larger.
GUESS_TOLERANCE = 16
# The tone mapping of HDR is allowed to change colours a little, but must not darken them.
HDR_TOLERANCE = 16
MATRIX_NAMES = {1: "BT.709", 5: "BT.470 System B/G", 6: "BT.601", 9: "BT.2020 non-constant"}
SHOWN = [(255 * red, 255 * green, 255 * blue) for red, green, blue in PATCHES]
COLOURED = (0, 1, 2, 3, 7)
CODECS = [codec.name for codec in codecs_for("video", "mp4")]


def differences(found: Sequence[Triple], wanted: Sequence[Triple]) -> list[float]:
    """Return, for each colour, the greatest difference between a found component and the wanted component."""
    return [
        max(abs(a - b) for a, b in zip(one, other, strict=True))
        for one, other in zip(found, wanted, strict=True)
    ]


SDR_SOURCES: dict[str, Callable[[Sources], Path]] = {
    **{kind.name: partial(sdr, kind=kind) for kind in SDR_KINDS},
    "rgb-large": partial(rgb, size=(1280, 720)),
    "rgb-small": partial(rgb, size=(320, 180)),
}


@pytest.mark.parametrize("name", SDR_SOURCES)
def test_a_viewer_sees_the_colours_of_the_source(make: Make, sources: Sources, name: str) -> None:
    """An earlier version encoded RGB of 720 lines in BT.601 without tags, and players took it for BT.709."""
    film = make([FILM], SDR_SOURCES[name](sources)) / "film.mp4"
    tolerance = GUESS_TOLERANCE if name == "untagged-small" else TOLERANCE
    assert max(differences(patch_colours(film), SHOWN)) <= tolerance, patch_colours(film)


@pytest.mark.parametrize("name", SDR_SOURCES)
def test_a_film_says_how_its_colours_are_meant(make: Make, sources: Sources, name: str) -> None:
    """In an earlier version, the outputs of RGB and untagged sources had no colour tags."""
    film = make([FILM], SDR_SOURCES[name](sources)) / "film.mp4"
    tags = colour_tags(film)
    assert UNSPECIFIED not in (tags.primaries, tags.transfer, tags.matrix)
    assert mediainfo_tags(film).matrix == MATRIX_NAMES[tags.matrix]


def test_the_primaries_of_phones_and_cinemas_are_kept(make: Make, sources: Sources) -> None:
    """An earlier version tagged Display P3 as BT.709, so players showed pictures with too little colour."""
    tags = "setparams=color_primaries=smpte432:color_trc=bt709:colorspace=bt709:range=tv"
    pictures = f"-f lavfi -i color=red:size=160x90:duration=1,format=yuv420p,{tags}"
    source = sources.get("display-p3.mp4", lambda path: ffmpeg(f"{pictures} -c:v libx264 {path}"))
    outputs = [{"name": codec, "type": "mp4", "video": {"codec": codec}} for codec in CODECS]
    folder = make(outputs, source)
    assert {colour_tags(folder / f"{codec}.mp4").primaries for codec in CODECS} == {DISPLAY_P3}


def expressible(transfer: int) -> list[Triple]:
    """Return the patches.

    Replace each component that is too dark for this transfer by the darkest possible component.
    """
    least = LEAST_LIGHT.get(transfer, 0.0) ** (1 / 2.4)
    return [(max(red, least), max(green, least), max(blue, least)) for red, green, blue in PATCHES]


@pytest.mark.parametrize(
    "given",
    [
        Colours(matrix=YCGCO),
        *(Colours(transfer=transfer) for transfer in (LINEAR, LOG, LOG_SQRT)),
        Colours(primaries=EBU3213),
        Colours(EBU3213, matrix=YCGCO),
    ],
    ids=lambda given: f"{given.primaries}-{given.transfer}-{given.matrix}",
)
def test_colours_that_players_do_not_know_become_bt709(make: Make, sources: Sources, given: Colours) -> None:
    """An earlier version tagged these pictures as BT.709, but did not change their values."""
    film = make([FILM | {"video": {"crf": 1}}], lossless(sources, given)) / "film.mp4"
    assert colour_tags(film) == Colours()
    wanted = [to_ycbcr(patch, Colours()) for patch in expressible(given.transfer)]
    found = patch_values(film)
    assert max(differences(found, [(float(y), cb, cr) for y, cb, cr in wanted])) <= VALUE_TOLERANCE, found


@pytest.mark.parametrize("pixels", ["nv12", "yuyv422"])
def test_packed_pixels_of_a_rare_matrix_become_bt709(make: Make, sources: Sources, pixels: str) -> None:
    """In an earlier version, ffmpeg converted such pixels with a filter that does not know their matrix."""
    planar = lossless(sources, Colours(matrix=YCGCO))
    filters = f"setparams=colorspace=bt709,format={pixels},setparams=colorspace=ycgco"
    source = sources.get(
        f"ycgco-{pixels}.mkv", lambda path: ffmpeg(f"-i {planar} -vf {filters} -c:v rawvideo {path}")
    )
    film = make([FILM | {"video": {"crf": 1}}], source) / "film.mp4"
    assert colour_tags(film) == Colours()
    wanted = [to_ycbcr(patch, Colours()) for patch in PATCHES]
    found = patch_values(film)
    assert max(differences(found, [(float(y), cb, cr) for y, cb, cr in wanted])) <= VALUE_TOLERANCE, found


def test_a_poster_of_the_primaries_of_phones_becomes_bt709(make: Make, sources: Sources) -> None:
    """Readers assume BT.709 for JPEG, so without a conversion, a poster had too little colour."""
    poster = {"name": "poster", "type": "image", "at": ["0s"]}
    picture = make([poster], lossless(sources, Colours(DISPLAY_P3))) / "poster/1.jpg"
    meant = Colours(matrix=BT601, is_full_range=True)
    shown = [from_ycbcr(value, meant) for value in patch_values(picture, number=0)]
    found = [(255 * red, 255 * green, 255 * blue) for red, green, blue in shown]
    assert max(differences(found, SHOWN)) <= TOLERANCE, found


@pytest.mark.parametrize("transfer", [PQ, HLG])
def test_an_ordinary_colour_comes_back_from_hdr(make: Make, sources: Sources, transfer: int) -> None:
    """An earlier version turned the colour (192, 128, 96) into (161, 107, 76)."""
    film = make([FILM], hdr(sources, transfer)) / "film.mp4"
    assert colour_tags(film) == Colours()
    found = differences(patch_colours(film), SHOWN)
    assert max(found[place] for place in COLOURED) <= HDR_TOLERANCE, patch_colours(film)


def test_hdr_of_other_primaries_is_kept_as_bt2020(make: Make, sources: Sources) -> None:
    """An earlier version tagged PQ with the primaries of Display P3 as BT.2020, with unchanged values."""
    video = {"codec": "hevc", "hdr": "keep", "crf": 1}
    film = make([FILM | {"video": video}], hdr_p3(sources)) / "film.mp4"
    kept = Colours(BT2020, PQ, BT2020)
    assert colour_tags(film) == kept
    wanted = [to_ycbcr(to_hdr(patch, PQ), kept) for patch in PATCHES]
    found = patch_values(film)
    assert max(differences(found, [(float(y), cb, cr) for y, cb, cr in wanted])) <= VALUE_TOLERANCE, found


@pytest.mark.parametrize("transfer", [PQ, HLG])
def test_greys_of_hdr_stay_grey_and_within_the_range(make: Make, sources: Sources, transfer: int) -> None:
    """An earlier version encoded the white of PQ as Y = 252, above the upper limit of 235."""
    values = patch_values(make([FILM], hdr_greys(sources, transfer)) / "film.mp4")
    lumas = [round(y) for y, _, _ in values]
    assert lumas == sorted(lumas)
    assert 16 <= lumas[0] <= lumas[-1] <= 235
    assert max(abs(chroma - 128) for _, *chromas in values for chroma in chromas) <= 2
