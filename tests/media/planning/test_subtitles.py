"""Tests of planning subtitles: which tracks, their names and times, and warnings."""

import pytest

from euterpe.domain.outputs import AdaptiveOutput, AdaptiveVideo, Rung
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tree import Plan, SubtitleTrack, TrackLabels
from euterpe.media.source.media_info import MediaInfo, StreamInfo

VIDEO = StreamInfo(0, "video", "h264", 10.0, 2.0, 12.0, width=160, height=90, fps=25.0)


def subtitle(index: int, language: str | None = None, codec: str = "subrip", **labels: object) -> StreamInfo:
    return StreamInfo(index, "subtitle", codec, language=language, **labels)  # type: ignore[arg-type]


def planned(*streams: StreamInfo, subtitles: object = "all", **options: object) -> Plan:
    output = AdaptiveOutput.model_validate(
        {
            "name": "a",
            "type": "adaptive",
            "video": AdaptiveVideo(ladder=(Rung(height=90),)),
            "subtitles": subtitles,
            **options,
        }
    )
    info = MediaInfo("matroska", 1000, 10.0, (VIDEO, *streams), start_seconds=2.0)
    return plan([output], info, threads=1)


def tracks(made: Plan) -> tuple[SubtitleTrack, ...]:
    return made.packages[0].subtitles


def warnings(made: Plan) -> list[tuple[str, str]]:
    return [(one.code, one.message) for one in made.warnings]


def test_a_track_has_the_labels_of_the_source_and_the_times_of_the_output() -> None:
    made = planned(subtitle(1, "ger", title="Untertitel", is_forced=True, is_default=True))
    labels = TrackLabels("ger", "Untertitel", is_default=False)
    assert tracks(made) == (SubtitleTrack(1, "subs_de", labels, is_forced=True, shift=2.0),)
    assert warnings(made) == []


def test_a_part_has_the_times_of_the_part() -> None:
    (track,) = tracks(planned(subtitle(1), start=3.0, end=5.0))
    assert (track.shift, track.seconds) == (5.0, 2.0)


def test_names_are_unique() -> None:
    streams = [
        subtitle(index, language) for index, language in enumerate(("eng", "en", None, None, "pt-br"), 1)
    ]
    names = [track.name for track in tracks(planned(*streams))]
    assert names == ["subs_en", "subs_en_2", "subs", "subs_2", "subs_pt-br"]


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [(["de", "en"], [2, 1, 4]), (["ger"], [2]), (["pt"], [3]), (["pt-BR"], [3]), (["pt-PT"], [])],
)
def test_languages_are_matched_by_their_meaning(wanted: list[str], chosen: list[int]) -> None:
    streams = [subtitle(index, one) for index, one in enumerate(("eng", "deu", "pt-br", "en-us"), 1)]
    assert [track.stream for track in tracks(planned(*streams, subtitles=wanted))] == chosen


def test_a_missing_language_and_a_track_that_is_left_out_are_named() -> None:
    made = planned(subtitle(1, "eng"), subtitle(2, "fre"), subtitles=["en", "de"])
    assert warnings(made) == [
        ("subtitle_language_missing", "the source has no text subtitles with the language de"),
        ("subtitle_track_dropped", "subtitle track 2 (fre) is not included"),
    ]


@pytest.mark.parametrize("codec", ["hdmv_pgs_subtitle", "dvb_subtitle", "dvd_subtitle", "dvb_teletext"])
def test_subtitles_that_are_pictures_are_left_out(codec: str) -> None:
    made = planned(subtitle(1, "eng", codec), subtitle(2, "eng"))
    assert [track.stream for track in tracks(made)] == [2]
    assert warnings(made) == [
        ("subtitle_track_dropped", "subtitle track 1 (eng) is not included: it is not text")
    ]


def test_subtitles_that_are_not_asked_for_are_left_out() -> None:
    made = planned(subtitle(1, "eng"), subtitles=None)
    assert tracks(made) == ()
    assert warnings(made) == [("subtitle_track_dropped", "subtitle track 1 (eng) is not included")]
