"""Tests of measured quality: which metrics each encode gets, and which model VMAF uses."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from euterpe.media.errors import MediaError
from euterpe.media.planning.tree import Plan, QualityCheck
from euterpe.media.source.colour import Colour
from tests.media.planning.facts import (
    AUDIO,
    VIDEO,
    argv_of,
    info,
    long_film,
    planned,
    values_of,
    warning_codes,
)

HDR = replace(VIDEO, colour=Colour(9, 16, 9), bit_depth=10)
KEPT: dict[str, Any] = {"codec": "hevc", "hdr": "keep"}


def film(*, measure: Sequence[str] = (), vmaf_min: float | None = None, **video: object) -> dict[str, object]:
    """Return a film output. `video` has additional fields for the picture."""
    wanted = {"measure": list(measure), "vmaf_min": vmaf_min}
    return {"name": "film", "type": "mp4", **wanted, "video": video}


def checks(made: Plan) -> list[QualityCheck | None]:
    return [video.quality for command in made.commands for video in command.videos]


def metrics(made: Plan) -> list[tuple[str, ...]]:
    return [check.metrics if check else () for check in checks(made)]


def test_nothing_is_measured_unless_it_is_asked_for() -> None:
    made = planned(film())
    assert checks(made) == [None]
    assert "-dec" not in argv_of(made)


def test_metrics_are_measured_in_one_order() -> None:
    """A request with the same metrics in another order gives the same plan."""
    assert planned(film(measure=["xpsnr", "vmaf"])) == planned(film(measure=["vmaf", "xpsnr"]))
    assert metrics(planned(film(measure=["xpsnr", "psnr", "vmaf"]))) == [("vmaf", "psnr", "xpsnr")]


def test_a_least_vmaf_implies_that_vmaf_is_measured() -> None:
    (check,) = checks(planned(film(vmaf_min=90, measure=["ssim"])))
    assert check is not None
    assert (check.metrics, check.least_vmaf) == (("vmaf", "ssim"), 90.0)


def test_every_rung_is_measured_under_its_own_number() -> None:
    stream = {"name": "a", "type": "hls", "measure": ["vmaf"], "video": {"ladder": [720, 360]}}
    made = planned(stream, {**film(vmaf_min=80), "optional": True})
    found = [check for check in checks(made) if check]
    assert len(found) == 3
    assert len({check.number for check in found}) == 3


def test_the_first_of_two_passes_is_not_measured() -> None:
    first, second = planned(film(bitrate_kbps=500, measure=["vmaf"])).commands
    assert [video.quality is None for video in (*first.videos, *second.videos)] == [True, False]


@pytest.mark.parametrize(
    ("size", "model"),
    [((1920, 1080), "vmaf_v0.6.1"), ((2560, 1440), "vmaf_v0.6.1"), ((3840, 2160), "vmaf_4k_v0.6.1")],
)
def test_pictures_above_1440_lines_have_the_model_for_2160(size: tuple[int, int], model: str) -> None:
    source = replace(VIDEO, width=size[0], height=size[1])
    (check,) = checks(planned(film(measure=["vmaf"]), facts=info(source, AUDIO)))
    assert check is not None
    assert check.model == model


def test_hdr_is_measured_without_vmaf_and_xpsnr_and_with_a_warning() -> None:
    made = planned(film(**KEPT, measure=["vmaf", "psnr", "ssim", "xpsnr"]), facts=info(HDR, AUDIO))
    assert metrics(made) == [("psnr", "ssim")]
    assert "quality_not_measured" in warning_codes(made)


def test_hdr_that_becomes_sdr_is_measured_with_vmaf() -> None:
    made = planned(film(codec="hevc", measure=["vmaf"]), facts=info(HDR, AUDIO))
    assert metrics(made) == [("vmaf",)]
    assert "quality_not_measured" not in warning_codes(made)


def test_a_least_vmaf_of_hdr_is_refused() -> None:
    """If the request were accepted, a job could succeed although its lowest VMAF was never checked."""
    with pytest.raises(MediaError) as refused:
        planned(film(**KEPT, vmaf_min=90), facts=info(HDR, AUDIO))
    assert refused.value.code == "output_unsupported"


@pytest.mark.parametrize("size", [(16, 64), (64, 30)])
def test_pictures_with_a_side_below_32_are_measured_without_vmaf(size: tuple[int, int]) -> None:
    """libvmaf crashes if a side of the picture has 16 pixels."""
    facts = info(replace(VIDEO, width=size[0], height=size[1]), AUDIO)
    made = planned(film(measure=["vmaf", "ssim"]), facts=facts)
    assert metrics(made) == [("ssim",)]
    assert "quality_not_measured" in warning_codes(made)
    with pytest.raises(MediaError):
        planned(film(vmaf_min=1), facts=facts)


def test_the_decoder_reads_the_stream_of_the_film_that_was_encoded() -> None:
    sound = {"name": "sound", "type": "m4a"}
    made = planned(sound, film(measure=["vmaf"]), {"name": "other", "type": "mp4"})
    assert values_of(argv_of(made), "-dec") == ["1:0"]


def test_no_text_of_the_request_is_in_a_filter() -> None:
    made = planned({**film(measure=["vmaf", "psnr", "ssim", "xpsnr"]), "name": "my-secret-name"})
    graphs = values_of(argv_of(made), "-filter_complex")
    assert len(graphs) == 2
    assert not any("my-secret-name" in graph for graph in graphs)


def test_a_copied_stream_is_not_measured() -> None:
    """A copied stream is equal to the stream of the source."""
    made = planned({**film(copy="auto", vmaf_min=90), "audio": {"copy": "auto"}})
    assert checks(made) == []
    assert "-dec" not in argv_of(made)
    assert warning_codes(made) == []


@pytest.mark.parametrize(("seconds", "interval"), [(9.0, 3), (11.0, 7), (31.0, 13), (121.0, 29)])
def test_vmaf_is_computed_for_a_larger_share_of_a_short_film(seconds: float, interval: int) -> None:
    (check,) = checks(planned(film(measure=["vmaf"]), facts=long_film(seconds)))
    assert check is not None
    assert check.interval == interval


def test_only_vmaf_leaves_out_pictures() -> None:
    for measure, count in ((["vmaf"], 2), (["vmaf", "psnr"], 0), (["ssim"], 0)):
        graphs = values_of(argv_of(planned(film(measure=measure), facts=long_film(60))), "-filter_complex")
        assert ";".join(graphs).count("select='lt(mod(n+1,13),3)'") == count


def test_vmaf_has_no_threads_of_its_own() -> None:
    """libvmaf queues pictures for its threads without a limit."""
    _, graph = values_of(argv_of(planned(film(measure=["vmaf"]))), "-filter_complex")
    assert "n_threads" not in graph


def test_the_score_of_a_short_part_does_not_depend_on_the_other_outputs() -> None:
    """In an earlier version, the VMAF of a part was computed for every 3rd picture.

    If the same job had an output of the whole film, the VMAF of the part was computed for every 7th picture.
    """
    part = {**film(measure=["vmaf"]), "start": 20, "end": 25}
    alone = checks(planned(part, facts=long_film(60)))
    beside = checks(planned(part, {"name": "whole", "type": "mp4"}, facts=long_film(60)))
    assert alone == beside[:1]
