"""Tests that the master playlist describes its renditions correctly."""

import pytest

from tests.media.outputs.deliveries import HLS
from tests.media.outputs.product_path import Make
from tests.media.readers.renditions import Rendition, hls_media, hls_variants
from tests.media.sources.cache import Sources
from tests.media.sources.flashes import flash_film
from tests.media.sources.numbered import NTSC, constant
from tests.media.sources.sounds import two_languages

LADDER = {**HLS, "segment_seconds": 1, "video": {"ladder": [90, 64]}}


def peak(rendition: Rendition) -> float:
    return max(rendition.bits_per_second(place) for place in range(len(rendition.segments)))


def average(rendition: Rendition) -> float:
    return 8 * sum(len(segment.data) for segment in rendition.segments) / rendition.seconds


def test_the_bandwidth_of_a_variant_includes_its_sound(make: Make, sources: Sources) -> None:
    """An earlier version declared 655,615 bit/s for a variant.

    The pictures of the variant have 655,808 bit/s, and its sound has 117,392 bit/s.
    """
    master = make([LADDER], flash_film(sources)) / "hls/master.m3u8"
    (sound,) = hls_media(master)
    for variant in hls_variants(master):
        needed = average(variant) + average(sound)
        most = peak(variant) + peak(sound)
        assert needed < int(variant.attributes["BANDWIDTH"]) <= 1.1 * most + 1000
        assert int(variant.attributes["AVERAGE-BANDWIDTH"]) == pytest.approx(needed, rel=0.05)


@pytest.mark.parametrize(("rate", "expected"), [("25", 25.0), (NTSC, 29.97)])
def test_a_variant_states_its_frame_rate(make: Make, sources: Sources, rate: str, expected: float) -> None:
    for variant in hls_variants(make([LADDER], constant(sources, rate=rate)) / "hls/master.m3u8"):
        assert float(variant.attributes["FRAME-RATE"]) == pytest.approx(expected, abs=0.001)


def test_a_variant_states_the_codecs_of_picture_and_sound(make: Make, sources: Sources) -> None:
    for variant in hls_variants(make([LADDER], flash_film(sources)) / "hls/master.m3u8"):
        codecs = variant.attributes["CODECS"].split(",")
        assert [codec.partition(".")[0] for codec in codecs] == ["avc1", "mp4a"]


def test_the_sound_states_its_language(make: Make, sources: Sources) -> None:
    sound = hls_media(make([LADDER], two_languages(sources)) / "hls/master.m3u8")[0]
    assert sound.attributes["LANGUAGE"] == "en"
    assert "audio_" not in sound.attributes["NAME"]
