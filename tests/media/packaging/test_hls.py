"""Tests of media and I-frame playlists (RFC 8216), with an independent reader and with ffmpeg."""

import subprocess
from fractions import Fraction

import m3u8
import pytest

from euterpe.media.ffmpeg import find_ffmpeg
from euterpe.media.packaging.hls import HlsKey, hls_files, iframes_playlist, media_playlist, target_seconds
from euterpe.media.packaging.rendition import FileRange, Segment
from tests.media.packaging.presentations import PICTURES, SECONDS, SEGMENTS, Presentation
from tests.media.packaging.renditions import AUDIO, VIDEO, audio, video


def test_a_media_playlist_is_written_whole() -> None:
    assert media_playlist(VIDEO, 5).text == (
        "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:5\n#EXT-X-PLAYLIST-TYPE:VOD\n"
        '#EXT-X-MAP:URI="720p_init.mp4"\n'
        "#EXTINF:4.000000,\n720p_00001.m4s\n#EXTINF:4.000000,\n720p_00002.m4s\n"
        "#EXTINF:5.000000,\n720p_00003.m4s\n#EXT-X-ENDLIST\n"
    )


def test_an_iframe_playlist_names_the_bytes_of_each_keyframe() -> None:
    assert iframes_playlist(VIDEO).text == (
        "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:5\n#EXT-X-PLAYLIST-TYPE:VOD\n"
        '#EXT-X-I-FRAMES-ONLY\n#EXT-X-MAP:URI="720p_init.mp4"\n'
        "#EXTINF:4.000000,\n#EXT-X-BYTERANGE:40000@24\n720p_00001.m4s\n"
        "#EXTINF:4.000000,\n#EXT-X-BYTERANGE:60000@24\n720p_00002.m4s\n"
        "#EXTINF:5.000000,\n#EXT-X-BYTERANGE:20000@24\n720p_00003.m4s\n#EXT-X-ENDLIST\n"
    )


def test_a_keyframe_is_shown_until_the_next() -> None:
    segments = (Segment(0, 4000, 9, True, FileRange(0, 5)), Segment(4000, 4000, 9, False))
    playlist = m3u8.loads(iframes_playlist(video(segments=segments)).text)
    assert [segment.duration for segment in playlist.segments] == [8]
    assert playlist.target_duration == 8


def test_rounding_errors_do_not_add_up() -> None:
    segments = tuple(Segment(place * 1001, 1001, 9) for place in range(900))
    one = video(timescale=30_000, segments=segments)
    assert sum(one.durations) == 900 * 1001 * 1_000_000 / 30_000
    assert set(one.durations) == {33_366, 33_367}


def test_priming_and_a_late_start_belong_to_the_first_segment() -> None:
    assert AUDIO.durations == [4_000_000, 4_010_000, 5_010_000]
    late = video(segments=(Segment(1000, 3000, 9), Segment(4000, 4000, 9)))
    assert late.durations == [4_000_000, 4_000_000]


@pytest.mark.parametrize(("ticks", "target"), [(4499, 4), (4500, 5), (100, 1), (499, 1)])
def test_the_target_duration_is_rounded_half_up(ticks: int, target: int) -> None:
    assert target_seconds([video(segments=(Segment(0, ticks, 9),))]) == target


def test_all_playlists_share_the_target_duration() -> None:
    renditions = [VIDEO, audio(segments=(Segment(0, 6000, 9),), priming=0)]
    texts = [file.text for file in hls_files(renditions)[:2]]
    assert all("#EXT-X-TARGETDURATION:6\n" in text for text in texts)


def test_a_key_follows_the_init_segment() -> None:
    lines = media_playlist(VIDEO, 5, key=HlsKey("https://keys.example/a?b=1&c=%20")).text.splitlines()
    assert lines[4:6] == [
        '#EXT-X-MAP:URI="720p_init.mp4"',
        '#EXT-X-KEY:METHOD=AES-128,URI="https://keys.example/a?b=1&c=%20",KEYFORMAT="identity"',
    ]
    key = m3u8.loads(iframes_playlist(VIDEO, key=HlsKey("k", bytes(range(16)))).text).keys[0]
    assert (key.method, key.uri, key.iv) == ("AES-128", "k", "0x000102030405060708090a0b0c0d0e0f")


def test_a_hostile_key_address_stays_one_attribute() -> None:
    text = media_playlist(VIDEO, 5, key=HlsKey('https://x/"\n#EXT-X-ENDLIST\n é')).text
    assert 'URI="https://x/%22%0A#EXT-X-ENDLIST%0A%20%C3%A9",' in text
    assert text.count("\n#EXT-X-ENDLIST") == 1


def test_the_same_renditions_give_the_same_bytes(film: Presentation) -> None:
    again = hls_files(film.renditions, trick_play=True)
    assert [file.text for file in again] == [film.text(file.name) for file in again]
    assert not any("PROGRAM-DATE-TIME" in file.text for file in again)


def test_an_independent_reader_reads_the_playlists(film: Presentation) -> None:
    for one in [*film.videos, *film.sounds]:
        playlist = m3u8.loads(film.text(one.playlist))
        assert playlist.is_endlist
        assert (playlist.playlist_type, playlist.version) == ("vod", 7)
        assert playlist.segment_map[0].uri == one.init
        assert len(playlist.segments) == SEGMENTS
        seconds = sum(Fraction(str(segment.duration)) for segment in playlist.segments)
        assert seconds == pytest.approx(SECONDS + one.priming / one.timescale, abs=1e-6)
        assert all((film.folder / segment.uri).is_file() for segment in playlist.segments)
        assert max(round(segment.duration) for segment in playlist.segments) == playlist.target_duration
    for video_ in film.videos:
        playlist = m3u8.loads(film.text(video_.iframes_playlist))
        assert playlist.is_i_frames_only
        assert sum(segment.duration for segment in playlist.segments) == pytest.approx(SECONDS)


@pytest.mark.parametrize("manifest", ["master.m3u8", "manifest.mpd"])
def test_ffmpeg_reads_every_packet_through_the_manifest(film: Presentation, manifest: str) -> None:
    command = [
        str(find_ffmpeg()),
        "-nostdin",
        "-loglevel",
        "error",
        "-allowed_extensions",
        "ALL",
        "-i",
        manifest,
    ]
    command += ["-map", "0:v", "-map", "0:a", "-c", "copy", "-copyts"]
    command += ["-avoid_negative_ts", "disabled", "-f", "framecrc", "-"]
    ran = subprocess.run(command, cwd=film.folder, capture_output=True, text=True, timeout=60, check=True)
    rows = [line.split(",") for line in ran.stdout.splitlines() if not line.startswith("#")]
    counts = [sum(row[0].strip() == str(stream) for row in rows) for stream in range(6)]
    assert counts == [
        PICTURES,
        PICTURES,
        *(sum(s.samples for s in film.facts[one.name].segments) for one in film.sounds),
    ]
    # The first picture has the time 0. The sound begins earlier, by the length of its priming samples.
    starts = [next(int(row[2]) for row in rows if row[0] == str(stream)) for stream in range(6)]
    assert starts == [0, 0, *(-one.priming for one in film.sounds)]
