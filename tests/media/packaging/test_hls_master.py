"""Tests that the master playlist has the rates, codecs and languages by which players choose a rendition."""

import re
from dataclasses import replace
from fractions import Fraction
from math import ceil

import m3u8

from euterpe.media.packaging.hls import MASTER, HlsKey, hls_files
from euterpe.media.packaging.rendition import PackagedRendition, Segment, SubtitleRendition
from tests.media.packaging.presentations import SEGMENTS, Presentation
from tests.media.packaging.renditions import VIDEO, audio, video

SUBTITLES = SubtitleRendition(name="subs_en", segments=(Segment(0, 4000, 9),), language="eng")


def master(*renditions: PackagedRendition, trick_play: bool = False, key: HlsKey | None = None) -> str:
    last = hls_files(renditions, trick_play=trick_play, key=key)[-1]
    assert last.name == MASTER
    return last.text


def test_a_master_playlist_is_written_whole() -> None:
    sounds = [
        audio("audio_en", language="eng", is_default=True),
        audio("audio_de", language="ger", channels=6),
    ]
    text = master(VIDEO, *sounds, replace(SUBTITLES, is_forced=True), trick_play=True)
    assert text == (
        "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-INDEPENDENT-SEGMENTS\n"
        '#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="audio-aac",NAME="English",LANGUAGE="en",DEFAULT=YES,AUTOSELECT=YES,'
        'CHANNELS="2",URI="audio_en.m3u8"\n'
        '#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="audio-aac",NAME="German",LANGUAGE="de",DEFAULT=NO,AUTOSELECT=YES,'
        'CHANNELS="6",URI="audio_de.m3u8"\n'
        '#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="subs",NAME="English",LANGUAGE="en",DEFAULT=NO,AUTOSELECT=YES,'
        'FORCED=YES,URI="subs_en.m3u8"\n'
        "#EXT-X-STREAM-INF:BANDWIDTH=1339651,AVERAGE-BANDWIDTH=1054770,"
        'CODECS="avc1.64001f,mp4a.40.2",RESOLUTION=1280x720,FRAME-RATE=29.970,VIDEO-RANGE=SDR,'
        'AUDIO="audio-aac",SUBTITLES="subs"\n720p.m3u8\n'
        "#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=120000,AVERAGE-BANDWIDTH=73847,"
        'CODECS="avc1.64001f",RESOLUTION=1280x720,VIDEO-RANGE=SDR,URI="720p_iframes.m3u8"\n'
    )


def test_each_audio_codec_has_a_group_of_the_same_names() -> None:
    sounds = [
        audio(f"{codec}_{language}", codec=codec, language=language)
        for codec in ("mp4a.40.2", "Opus", "fLaC", "mp4a.6B")
        for language in ("eng", "ger")
    ]
    playlist = m3u8.loads(master(video("720p"), video("480p"), *sounds))
    groups: dict[str, list[str]] = {}
    for media in playlist.media:
        groups.setdefault(media.group_id, []).append(media.name)
    assert groups == {
        name: ["English", "German"] for name in ("audio-aac", "audio-opus", "audio-flac", "audio-mp3")
    }
    assert [variant.stream_info.codecs.split(",")[1] for variant in playlist.playlists] == [
        *("mp4a.40.2",) * 2, *("Opus",) * 2, *("fLaC",) * 2, *("mp4a.6B",) * 2,
    ]  # fmt: skip


def test_sound_alone_has_variants_of_its_own() -> None:
    sounds = [
        audio("de", language="ger"),
        audio("en", language="eng", is_default=True),
        audio("x", codec="Opus"),
    ]
    playlist = m3u8.loads(master(*sounds))
    assert [(one.uri, one.stream_info.codecs, one.stream_info.audio) for one in playlist.playlists] == [
        ("en.m3u8", "mp4a.40.2", "audio-aac"),
        ("x.m3u8", "Opus", "audio-opus"),
    ]
    assert playlist.playlists[0].stream_info.resolution is None


def test_pictures_alone_have_no_audio_group() -> None:
    text = master(VIDEO)
    assert "AUDIO" not in text
    assert 'CODECS="avc1.64001f"' in text


def test_the_picture_is_described() -> None:
    text = master(video(pixel_aspect=Fraction(4, 3), video_range="PQ", max_frame_rate=Fraction(60)))
    assert "RESOLUTION=1707x720,FRAME-RATE=60.000,VIDEO-RANGE=PQ" in text


def test_segments_that_depend_on_others_are_not_called_independent() -> None:
    dependent = video(segments=(*VIDEO.segments[:2], replace(VIDEO.segments[2], starts_with_sync=False)))
    assert "INDEPENDENT" not in master(dependent)


def test_no_keyframes_no_trick_play() -> None:
    assert "I-FRAME" not in master(video(segments=(Segment(0, 4000, 9, False),)), trick_play=True)


def test_encryption_counts_in_the_rates() -> None:
    one = video(segments=(Segment(0, 1000, 1000),))
    assert "BANDWIDTH=8064," in master(one, key=HlsKey("k"))  # 1008 bytes
    assert "BANDWIDTH=8000," in master(one)


def test_hostile_labels_cannot_leave_their_attribute() -> None:
    text = master(
        VIDEO, audio(title='x",URI="evil\n#EXT-X-STREAM-INF:BANDWIDTH=1\nevil.m3u8', language='en"')
    )
    assert len(text.splitlines()) == 6
    for media in m3u8.loads(text).media:
        assert (media.uri, media.language) == ("audio.m3u8", None)


def test_the_rates_are_those_of_the_files(film: Presentation) -> None:
    playlist = m3u8.loads(film.text("master.m3u8"))
    assert len(playlist.playlists) == 4  # two rungs with two audio codecs
    for variant in playlist.playlists:
        rung = variant.uri.removesuffix(".m3u8")
        family = variant.stream_info.audio
        sounds = [media.uri.removesuffix(".m3u8") for media in playlist.media if media.group_id == family]
        peak, average = zip(
            rates_of(film, rung),
            [max(both) for both in zip(*(rates_of(film, sound) for sound in sounds), strict=True)],
            strict=True,
        )
        assert abs(variant.stream_info.bandwidth - sum(peak)) <= 2
        assert abs(variant.stream_info.average_bandwidth - sum(average)) <= 2
        assert variant.stream_info.frame_rate == 29.97
        assert variant.stream_info.resolution == ((320, 180) if rung == "180p" else (160, 90))
    assert len(playlist.iframe_playlists) == 2


def rates_of(film: Presentation, name: str) -> tuple[int, int]:
    """Return the peak and the average rate of a rendition, from the sizes of its files and their times."""
    facts = film.facts[name]
    rows = [
        (
            (film.folder / segment.name).stat().st_size * 8,
            Fraction(segment.end - max(0, segment.start), facts.track.timescale),
        )
        for segment in facts.segments
    ]
    assert len(rows) == SEGMENTS
    return ceil(max(size / seconds for size, seconds in rows)), ceil(
        sum(size for size, _ in rows) / sum(seconds for _, seconds in rows)
    )


def test_every_attribute_is_well_formed(film: Presentation) -> None:
    attribute = r'[A-Z0-9-]+=(?:"[^"\r\n]*"|[0-9]+x[0-9]+|[0-9.]+|[A-Z-]+)'
    for line in film.text("master.m3u8").splitlines():
        if line.startswith("#EXT-X-") and ":" in line and "VERSION" not in line:
            assert re.fullmatch(rf"{attribute}(?:,{attribute})*", line.partition(":")[2]), line
