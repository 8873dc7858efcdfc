"""Tests of the search for a rate factor: its samples, its prediction, and the plan after the search."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.domain.codecs import CODECS, codecs_for
from euterpe.media.errors import MediaError
from euterpe.media.planning.argv import arguments, measurement_arguments
from euterpe.media.planning.loudness import MeasuredLoudness
from euterpe.media.planning.measurements import settled
from euterpe.media.planning.search import MeasuredCurve, chosen, samples
from euterpe.media.planning.tree import Input, Joined, Plan, SearchMeasurement
from euterpe.media.source.colour import Colour
from euterpe.media.source.watermark_info import WatermarkInfo
from tests.domain.outputs.one_output import refused
from tests.media.planning.facts import (
    AUDIO,
    FFMPEG,
    VIDEO,
    info,
    long_film,
    planned,
    values_of,
    warning_codes,
)

CRFS = (12, 20, 28, 36)
CURVE = MeasuredCurve((97.0, 92.0, 80.0, 60.0))
TARGET = {"target": {"vmaf": 93}}
CODEC_NAMES = [codec.name for codec in codecs_for("video", "mp4")]


def film(**video: object) -> dict[str, object]:
    return {"name": "film", "type": "mp4", "video": {**TARGET, **video}}


def searches(made: Plan) -> list[SearchMeasurement]:
    return [one for one in made.measurements if isinstance(one, SearchMeasurement)]


# -- the prediction


def test_the_highest_factor_that_reaches_the_target_is_chosen() -> None:
    found = chosen(CRFS, CURVE.vmaf, 92.0)
    assert (found.crf, found.predicted_vmaf) == (20, 92.0)
    found = chosen(CRFS, CURVE.vmaf, 93.0)
    assert 12 < found.crf < 20
    assert 93.0 <= found.predicted_vmaf < 94.0


@given(
    st.tuples(*[st.floats(0, 100)] * 4).map(lambda curve: tuple(sorted(curve, reverse=True))),
    st.floats(20, 99),
)
def test_a_choice_is_within_the_searched_factors_and_predicts_what_it_promises(
    curve: tuple[float, ...], target: float
) -> None:
    found = chosen(CRFS, curve, target)
    assert CRFS[0] <= found.crf <= CRFS[-1]
    assert curve[-1] - 0.01 <= found.predicted_vmaf <= curve[0] + 0.01
    assert found.predicted_vmaf >= target or found.crf == CRFS[0]


@given(st.tuples(*[st.floats(0, 100)] * 4), st.floats(20, 99))
def test_a_curve_that_rises_is_no_error(curve: tuple[float, ...], target: float) -> None:
    """The score of a sample does not always fall when the rate factor rises."""
    assert CRFS[0] <= chosen(CRFS, curve, target).crf <= CRFS[-1]


def test_every_codec_has_factors_from_good_to_bad() -> None:
    for name in CODEC_NAMES:
        codec = CODECS[name]
        assert codec.quality is not None
        assert codec.quality.least <= codec.probes[0]
        assert codec.probes[-1] <= codec.quality.most
        assert all(good < bad for good, bad in pairwise(codec.probes))


# -- the samples


@pytest.mark.parametrize("seconds", [150.0, 600.0, 3600.0, 36_000.0])
def test_samples_of_a_film_are_at_most_2_percent_of_it(seconds: float) -> None:
    parts = samples(Input(), seconds)
    assert sum(part.seconds or 0.0 for part in parts) <= 0.02 * seconds + 1e-3
    assert len(parts) <= 8


@pytest.mark.parametrize("seconds", [10.5, 60.0, 600.0])
def test_samples_are_apart_and_inside_of_the_part(seconds: float) -> None:
    parts = samples(Input(start=7.0, seconds=seconds), seconds)
    starts = [part.start or 0.0 for part in parts]
    assert starts[0] > 7.0
    assert starts[-1] + (parts[-1].seconds or 0.0) < 7.0 + seconds
    assert all(after - before > (parts[0].seconds or 0.0) for before, after in pairwise(starts))


def test_a_short_film_is_its_own_sample() -> None:
    assert samples(Input(), 9.0) == (Input(seconds=10.0, is_sample=True),)
    assert samples(Input(start=2.0, seconds=4.0), 4.0) == (Input(2.0, 4.0, is_sample=True),)
    assert samples(Input(), None) == (Input(seconds=10.0, is_sample=True),)


# -- the plan


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_a_target_is_searched_before_the_encode(codec: str) -> None:
    made = planned(film(codec=codec), facts=long_film(600))
    (search,) = searches(made)
    assert (search.outputs, search.crfs) == (("film",), CODECS[codec].probes)
    assert [video.crf for video in search.command.videos] == [*CODECS[codec].probes]
    assert len(search.inputs) == 8
    argv = measurement_arguments(made, search, FFMPEG)
    assert values_of(argv, "-dec") == ["0:0", "1:0", "2:0", "3:0"]
    assert [argv.index("-crf"), argv.count("-crf")][1] == 4


def test_a_settled_plan_has_the_factor_and_the_prediction() -> None:
    made = planned(film(), facts=long_film(600))
    with pytest.raises(ValueError, match="has not run yet"):
        arguments(made, made.commands[0], FFMPEG)
    done = settled(made, [CURVE])
    ((video,),) = [command.videos for command in done.commands]
    assert done.measurements == ()
    assert video.quality is not None
    assert video.quality.search is not None
    assert video.crf == video.quality.search.crf == chosen(CRFS, CURVE.vmaf, 93).crf
    assert video.quality.search.sample_seconds == pytest.approx(12.0)
    assert values_of(arguments(done, done.commands[0], FFMPEG), "-crf") == [str(video.crf)]
    assert warning_codes(done) == []


@pytest.mark.parametrize(("curve", "crf"), [((91.0, 85.0, 70.0, 50.0), 12), ((99.0, 98.5, 98.0, 97.0), 36)])
def test_a_target_that_cannot_be_met_takes_the_bound_and_is_named(curve: tuple[float, ...], crf: int) -> None:
    done = settled(planned(film(), facts=long_film(600)), [MeasuredCurve(curve)])
    assert done.commands[0].videos[0].crf == crf
    assert warning_codes(done) == ["target_missed"]


def test_every_rung_is_searched_with_its_highest_rate() -> None:
    ladder = {"ladder": [{"height": 720, "bitrate_kbps": 1500}, 360], **TARGET}
    made = planned({"name": "a", "type": "hls", "video": ladder}, facts=long_film(600))
    found = searches(made)
    assert [one.command.videos[0].most_kbps for one in found] == [1500, 1289]
    assert [one.command.videos[0].kbps for one in found] == [None, None]
    sizes = [(one.command.scales[0].width, one.command.scales[0].height) for one in found]
    assert sizes == [(1280, 720), (640, 360)]
    numbers = [video.quality.number for one in found for video in one.command.videos if video.quality]
    numbers += [video.quality.number for video in made.commands[0].videos if video.quality]
    assert len(set(numbers)) == len(numbers) == 10


def test_samples_get_the_changes_of_the_picture_and_begin_at_0() -> None:
    made = planned({**film(height=480), "crop": {"left": 100}, "start": 5}, facts=long_film(600))
    (picture,) = searches(made)[0].command.pictures
    assert picture.cut is not None
    assert (picture.shift, picture.lead, picture.input) == (0.0, 0.0, 0)
    assert picture.joined == Joined(8, 1920, 1080)
    (graph, *_) = values_of(measurement_arguments(made, searches(made)[0], FFMPEG), "-filter_complex")
    assert "concat=n=8" in graph
    assert graph.count("setpts=PTS-STARTPTS,scale=1920:1080,") == 8


def test_samples_of_a_turned_film_are_joined_upright() -> None:
    made = planned(film(), facts=info(replace(VIDEO, rotation=90), AUDIO))
    (picture,) = searches(made)[0].command.pictures
    assert picture.joined == Joined(1, 1080, 1920)


def test_samples_get_the_watermark() -> None:
    logo = {"source": {"url": "s3://in/logo.png"}}
    marks = {"s3://in/logo.png": WatermarkInfo("png_pipe", 0, 600, 200)}
    made = planned({**film(), "watermark": logo}, facts=long_film(600), watermarks=marks)
    (search,) = searches(made)
    (overlay,) = [scale.overlay for scale in search.command.scales]
    assert overlay is not None
    assert [one.watermark for one in search.inputs] == [None] * 8 + [0]
    assert overlay.input == 8
    assert made.commands[0].scales[0].overlay == replace(overlay, input=1)
    assert "png_pipe" in measurement_arguments(made, search, FFMPEG)


def test_a_copied_film_has_no_part_in_the_search_of_another() -> None:
    """In an earlier version, the copied film got the warning that the target was missed."""
    copied = {"name": "copied", "type": "mp4", "video": {"copy": "auto"}}
    made = planned(copied, film(), facts=long_film(600))
    assert [one.outputs for one in searches(made)] == [("film",)]
    done = settled(made, [MeasuredCurve((91.0, 85.0, 70.0, 50.0))])
    assert [(one.code, one.output) for one in done.warnings] == [("target_missed", "film")]


def test_the_search_of_an_optional_output_is_optional() -> None:
    made = planned({**film(), "optional": True}, facts=long_film(600))
    assert [one.is_optional for one in searches(made)] == [True]
    assert settled(made, [None]).commands[0].videos[0].goal is None


def test_a_result_of_another_kind_is_an_error() -> None:
    made = planned(film(), facts=long_film(600))
    with pytest.raises(ValueError, match="another kind"):
        settled(made, [MeasuredLoudness(-23.0, -9.0)])
    with pytest.raises(ValueError, match="shorter"):
        settled(made, [])


def test_a_target_of_hdr_is_refused() -> None:
    hdr = replace(VIDEO, colour=Colour(9, 16, 9), bit_depth=10)
    with pytest.raises(MediaError) as found:
        planned(film(codec="hevc", hdr="keep"), facts=info(hdr, AUDIO))
    assert found.value.code == "output_unsupported"


def test_a_target_is_not_given_beside_a_factor() -> None:
    problem = "must be null if crf is given, because a target chooses crf"
    assert refused({"type": "mp4", "video": {"crf": 20, **TARGET}}) == {("video", "target"): problem}
    ladder = {"ladder": [{"height": 720, "crf": 20}], **TARGET}
    assert refused({"type": "hls", "video": ladder}) == {("video", "target"): problem}
