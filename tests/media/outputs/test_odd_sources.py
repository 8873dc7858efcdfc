"""Tests of rare but valid sources: odd ends, two pictures at one time, and a coarse clock."""

import pytest

from tests.media.outputs.deliveries import BOTH, deliveries
from tests.media.outputs.product_path import Make
from tests.media.readers.media import sound
from tests.media.readers.pictures import picture_times
from tests.media.sources.cache import Sources, ffmpeg
from tests.media.sources.flashes import slides_with_sound


def test_a_long_last_picture_does_not_cut_the_sound(make: Make, sources: Sources) -> None:
    """An earlier version refused such a source, because it seemed to be cut off at its last picture.

    In the output, the last picture can be shorter, because x264, x265 and SVT-AV1 do not keep its duration.
    """
    source = slides_with_sound(sources)
    length = sound(source).samples.shape[1] / sound(source).sample_rate
    for made in deliveries(make(BOTH, source)):
        heard = sound(made.heard)
        assert heard.samples.shape[1] / heard.sample_rate == pytest.approx(length, abs=0.05), made.name


@pytest.mark.parametrize("kind", ["mp4", "mov", "webm"])
def test_sound_may_end_long_before_the_picture(make: Make, sources: Sources, kind: str) -> None:
    """An earlier version failed the job with output_truncated, because WebM had no sound at its end."""
    inputs = "-f lavfi -i testsrc2=size=160x90:rate=25:duration=20 -f lavfi -i sine=440:r=48000:duration=3"
    source = sources.get("short-sound.mp4", lambda path: ffmpeg(f"{inputs} -c:v libx264 -c:a aac {path}"))
    film = make([{"name": "film", "type": kind}], source) / f"film.{kind}"
    heard = sound(film)
    assert heard.samples.shape[1] / heard.sample_rate == pytest.approx(3.0, abs=0.1)


def test_of_two_pictures_at_one_time_one_is_kept(make: Make, sources: Sources) -> None:
    """Screen recorders write such sources.

    In an earlier version, jobs with such sources failed: "Non-monotonic DTS".
    """
    pictures = "testsrc2=size=160x90:rate=25:duration=2,setpts='if(eq(N,10),N-1,N)'"
    encode = "-fps_mode passthrough -c:v libvpx -deadline realtime"
    source = sources.get("twins.webm", lambda path: ffmpeg(f'-f lavfi -i "{pictures}" {encode} {path}'))
    assert len(set(picture_times(source))) == 49 == len(picture_times(source)) - 1
    for made in deliveries(make(BOTH, source)):
        assert picture_times(made.pictures) == pytest.approx(sorted(set(picture_times(source))), abs=0.001)


def test_pictures_of_a_coarse_clock_keep_their_times(make: Make, sources: Sources) -> None:
    """The clock of Theora has one tick for each picture, and Vorbis begins 2.7 ms before 0.

    In an earlier version, the first two pictures got the same time, and the job failed.
    """
    inputs = "-f lavfi -i testsrc2=size=160x90:rate=25:duration=2 -f lavfi -i sine=440:r=48000:duration=2"
    source = sources.get("film.ogv", lambda path: ffmpeg(f"{inputs} -c:v libtheora -c:a libvorbis {path}"))
    for made in deliveries(make(BOTH, source)):
        wanted = [number / 25 for number in range(50)]
        assert picture_times(made.pictures) == pytest.approx(wanted, abs=0.001), made.name
