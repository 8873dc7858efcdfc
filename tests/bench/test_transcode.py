"""The bench of the worker, at its smallest."""

import pytest

from euterpe.bench.figures import BenchFailed
from euterpe.bench.programs import Installation
from euterpe.bench.transcode import temporary_folder, transcode_bench

pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


def test_jobs_are_compared_with_ffmpeg_alone(installation: Installation) -> None:
    with temporary_folder() as place, transcode_bench(installation, place) as shop:
        claimed, enqueued = shop.measure_one(1)
        many = shop.measure_many(2, 2)
        worker, helper = shop.measure_memory(16)
    assert enqueued.value >= claimed.value > 0
    assert many.ratio is not None
    assert (worker.unit, helper.unit) == ("MiB", "MiB")
    assert not place.folder.exists()


def test_a_job_that_fails_is_no_figure(installation: Installation) -> None:
    with temporary_folder() as place, transcode_bench(installation, place) as shop:
        (place.folder / "short.mp4").write_bytes(b"not a film")
        with pytest.raises(BenchFailed, match="source_not_media"), shop._working(slots=1):
            pass


def test_a_source_without_room_is_refused(installation: Installation) -> None:
    with temporary_folder() as place, transcode_bench(installation, place) as shop:
        with pytest.raises(BenchFailed, match="has no room"):
            shop.measure_memory(2**40)
        assert not (place.folder / "large.mkv").exists()
