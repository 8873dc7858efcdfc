"""Tests of planning subtitles: which tracks, their names and times, and warnings."""

from dataclasses import replace

import pytest

from euterpe.domain.outputs import AdaptiveOutput, AdaptiveVideo, Rung
from euterpe.media.planning.documents import plan_hash
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tree import File, Plan, SubtitleTrack, TrackLabels
from euterpe.media.source.media_info import MediaInfo, StreamInfo
from tests.media.planning.facts import AUDIO, SUBTITLE, info
from tests.media.planning.facts import VIDEO as FILM_VIDEO
from tests.media.planning.facts import planned as planned_film

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


FILM = {"name": "film", "type": "mp4"}


def film_tracks(made: Plan) -> tuple[SubtitleTrack, ...]:
    (file,) = made.commands[0].products
    assert isinstance(file, File)
    return file.subtitles


def test_a_film_has_the_tracks_of_its_languages_until_it_ends() -> None:
    german = replace(SUBTITLE, index=4, language="ger", title="Untertitel", is_forced=True)
    facts = info(FILM_VIDEO, AUDIO, replace(SUBTITLE, language="eng"), german)
    made = planned_film({**FILM, "subtitles": ["de"]}, facts=facts)
    labels = TrackLabels("ger", "Untertitel", is_default=False)
    assert film_tracks(made) == (SubtitleTrack(4, "film-0", labels, True, 0.0, 10.0),)
    assert warnings(made) == [("subtitle_track_dropped", "subtitle track 2 (eng) is not included")]
    part = planned_film({**FILM, "subtitles": ["de"], "start": 2, "end": 5}, facts=facts)
    assert [(one.shift, one.seconds) for one in film_tracks(part)] == [(2.0, 3.0)]


def test_subtitles_end_with_a_film_of_unknown_length_when_their_last_cue_does() -> None:
    unknown = replace(FILM_VIDEO, end_seconds=None, duration_seconds=None)
    facts = info(unknown, SUBTITLE, seconds=None)
    assert [one.seconds for one in film_tracks(planned_film({**FILM, "subtitles": "all"}, facts=facts))] == [
        None
    ]


def test_sound_alone_may_have_subtitles() -> None:
    facts = info(FILM_VIDEO, AUDIO, SUBTITLE)
    made = planned_film({**FILM, "video": None, "subtitles": ["de"]}, facts=facts)
    assert [code for code, _ in warnings(made)] == ["subtitle_language_missing", "subtitle_track_dropped"]
    assert not warnings(planned_film({**FILM, "video": None}, facts=facts))
    assert len(film_tracks(planned_film({**FILM, "video": None, "subtitles": "all"}, facts=facts))) == 1


def test_subtitles_that_are_not_asked_for_are_left_out() -> None:
    made = planned(subtitle(1, "eng"), subtitles=None)
    assert tracks(made) == ()
    assert warnings(made) == [("subtitle_track_dropped", "subtitle track 1 (eng) is not included")]


def with_captions(codec: str = "h264", **options: object) -> Plan:
    output = {"name": "a", "type": "adaptive", "video": AdaptiveVideo(ladder=(Rung(height=90),)), **options}
    video = replace(VIDEO, codec=codec, has_captions=True, language="eng")
    info = MediaInfo("matroska", 1000, 10.0, (video, subtitle(1, "ger")), start_seconds=2.0)
    return plan([AdaptiveOutput.model_validate(output)], info, threads=1)


DROPPED = ("subtitle_track_dropped", "the closed captions of the picture are not included")


def test_closed_captions_are_a_track_without_a_language() -> None:
    made = with_captions(subtitles="all")
    labels = TrackLabels(None, "Closed captions", is_default=False)
    assert tracks(made)[1] == SubtitleTrack(0, "captions", labels, is_forced=False, shift=2.0)
    assert warnings(made) == []


@pytest.mark.parametrize("wanted", [None, ["de"], ["en"]])
def test_closed_captions_that_are_left_out_are_named(wanted: object) -> None:
    made = with_captions(subtitles=wanted)
    assert "captions" not in [track.name for track in tracks(made)]
    assert DROPPED in warnings(made)


def test_closed_captions_that_cannot_be_read_are_named() -> None:
    made = with_captions("vc1", subtitles="all")
    assert [track.name for track in tracks(made)] == ["subs_de"]
    (warning,) = warnings(made)
    assert warning == (DROPPED[0], f"{DROPPED[1]}: they cannot be read from vc1")


def test_the_plan_of_a_source_that_begins_near_0_has_a_hash() -> None:
    """A compromised prober can return a time that Euterpe's JSON documents do not allow."""
    facts = info(replace(VIDEO, first_seconds=None), SUBTITLE, start_seconds=1e-40)
    ladder = {"codec": "h264", "ladder": [360]}
    made = planned_film({"name": "a", "type": "hls", "video": ladder, "subtitles": "all"}, facts=facts)
    assert made.packages[0].subtitles[0].shift == 0.0
    assert plan_hash(made)
