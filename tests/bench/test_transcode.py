"""Test the benchmark of the worker with short clips."""

import pytest

from euterpe.bench.figures import BenchFailed
from euterpe.bench.programs import Installation
from euterpe.bench.transcode import temporary_folder, transcode_bench

pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


def test_jobs_are_compared_with_ffmpeg_alone(installation: Installation) -> None:
    with temporary_folder() as place, transcode_bench(installation, place) as bench:
        claimed, enqueued = bench.measure_one(1)
        many = bench.measure_many(2, 2)
        worker, helper = bench.measure_memory(16)
    assert enqueued.value >= claimed.value > 0
    assert many.ratio is not None
    assert (worker.unit, helper.unit) == ("MiB", "MiB")
    assert not place.folder.exists()


def test_a_job_is_measured_with_the_processor_time_of_its_worker(installation: Installation) -> None:
    with temporary_folder() as place, transcode_bench(installation, place) as bench:
        ran = bench.run_one("short.mp4")
    assert ran.wall_seconds > 0
    assert ran.encode_cpu_seconds > 0
    assert ran.worker_cpu_seconds >= 0


def test_a_failed_job_fails_the_benchmark(installation: Installation) -> None:
    with temporary_folder() as place, transcode_bench(installation, place) as bench:
        (place.folder / "short.mp4").write_bytes(b"not a video")
        with pytest.raises(BenchFailed, match="source_not_media"), bench._working(slots=1):
            pass


def test_a_worker_that_takes_too_long_fails_the_benchmark(installation: Installation) -> None:
    with (
        temporary_folder() as place,
        transcode_bench(installation, place) as bench,
        pytest.raises(BenchFailed, match="did not end its jobs within 0 s"),
    ):
        bench.run_many(1, 1, most_s=0.0)


def test_a_source_without_room_is_refused(installation: Installation) -> None:
    with temporary_folder() as place, transcode_bench(installation, place) as bench:
        with pytest.raises(BenchFailed, match="has no room"):
            bench.measure_memory(2**40)
        assert not (place.folder / "large.mkv").exists()
