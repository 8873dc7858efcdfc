"""Tests of filter graphs: times, colours, sizes, a cascade of scales, and pictures picked by a filter."""

from dataclasses import replace
from typing import Any

from euterpe.media.planning.filters import graph
from euterpe.media.source.colour import Colour
from tests.media.planning.facts import AUDIO, VIDEO, info, planned

FILM: dict[str, Any] = {"name": "film", "type": "mp4"}
LADDER: dict[str, Any] = {"name": "hls", "type": "hls", "video": {"ladder": [1080, 720, 480]}}


def graph_of(*outputs: dict[str, Any], place: int = 0, **video: Any) -> str:
    made = planned(*outputs, facts=info(replace(VIDEO, **video), AUDIO))
    return graph(made.commands[place])


def test_only_what_needs_it_is_deinterlaced_or_toned_down() -> None:
    plain = graph_of(FILM)
    for name in ("bwdif", "tonemap", "zscale", "crop", "pad", "fps=", "tpad"):
        assert name not in plain
    assert "bwdif=mode=send_frame" in graph_of(FILM, interlaced=True)
    for transfer in (16, 18):
        chain = graph_of(FILM, colour=Colour(9, transfer, 9))
        assert chain.count("tonemap=") == 1
        assert "limiter=min=16:max=235" in chain


def test_hdr_is_mapped_once_for_all_rungs_at_the_largest_size() -> None:
    chain = graph_of(LADDER, colour=Colour(9, 16, 9), width=3840, height=2160)
    assert chain.count("tonemap=") == 1
    assert "zscale=w=1920:h=1080" in chain


def test_the_brightness_of_the_source_bends_the_curve() -> None:
    hdr: dict[str, Any] = {"colour": Colour(9, 16, 9)}
    assert "peak=4.926" in graph_of(FILM, **hdr)
    assert "peak=19.704" in graph_of(FILM, **hdr, content_light=(4000, 400))


def test_the_transfer_of_the_source_is_a_tag_of_its_pictures() -> None:
    for transfer, name in ((16, "smpte2084"), (18, "arib-std-b67")):
        assert f"color_trc={name}" in graph_of(FILM, colour=Colour(9, transfer, 9))


def test_smaller_pictures_are_made_from_larger_ones() -> None:
    chains = graph_of(LADDER).split(";")
    assert chains[0].startswith("[0:0]")
    assert chains[0].endswith("[s0in]")
    assert "split=2[s1in][s0]" in chains[1]
    assert chains[2].startswith("[s0]")
    assert "split=2[s2in][s1]" in chains[3]
    assert sum(chain.startswith("[0:0]") for chain in chains) == 1


def test_a_colour_is_converted_once_and_tagged() -> None:
    rgb = graph_of(FILM, pixel_format="rgb24", colour=Colour(2, 2, 0))
    assert "in_color_matrix=auto:out_color_matrix=bt709:in_range=pc:out_range=tv" in rgb
    assert rgb.endswith("setparams=range=tv:color_primaries=bt709:color_trc=bt709:colorspace=bt709[v0]") or (
        "colorspace=bt709[v0];" in rgb
    )
    assert "colorspace=smpte170m[v0]" in graph_of(FILM, width=640, height=480)


def test_the_times_of_picture_and_sound_are_shifted_by_the_same_amount() -> None:
    facts = info(replace(VIDEO, first_seconds=1.5), replace(AUDIO, first_seconds=1.5), start_seconds=0.5)
    chain = graph(planned(FILM, facts=facts).commands[0])
    assert ",setpts=round(PTS-(1.000000)/TB)," in chain
    assert "asetpts=PTS-(1.000000)/TB" in chain


def test_sound_begins_at_zero_in_a_rate_and_a_layout_of_its_codec() -> None:
    chain = graph_of(FILM)
    assert "aresample=48000:async=200" in chain
    assert "first_pts=0" in chain
    assert chain.endswith("aformat=channel_layouts=stereo[a0]")


def test_black_pictures_fill_the_time_before_a_late_picture() -> None:
    facts = info(replace(VIDEO, first_seconds=2.0), AUDIO)
    assert "tpad=start=20" in graph(planned(FILM, facts=facts).commands[0])


def test_bars_and_crops_are_numbers_of_pixels() -> None:
    chain = graph_of({**FILM, "crop": {"left": 100, "right": 100}, "pad": {"aspect": "9:16"}})
    assert "crop=1720:1080:100:0:exact=1" in chain
    assert "pad=1720:3058:-1:-1" in chain


def test_a_moment_after_the_end_shows_the_last_picture() -> None:
    chain = graph_of({"name": "p", "type": "image", "at": ["99s"]})
    assert "tpad=stop=-1:stop_mode=clone" in chain
    assert chain.index("select=") < chain.index("trim=end_frame=1")
