"""Tests of sources that are rare but valid: ending in a picture that is shown for long."""

import pytest

from tests.media.outputs.deliveries import BOTH, deliveries
from tests.media.outputs.product_path import Make
from tests.media.readers.media import sound
from tests.media.sources.cache import Sources
from tests.media.sources.flashes import slides_with_sound


def test_a_long_last_picture_does_not_cut_the_sound(make: Make, sources: Sources) -> None:
    """The job failed: the source seemed to be cut off where its last picture begins.

    The picture itself may be shorter, because x264, x265 and SVT-AV1 do not keep its length.
    """
    source = slides_with_sound(sources)
    length = sound(source).samples.shape[1] / sound(source).sample_rate
    for made in deliveries(make(BOTH, source)):
        heard = sound(made.heard)
        assert heard.samples.shape[1] / heard.sample_rate == pytest.approx(length, abs=0.05), made.name
