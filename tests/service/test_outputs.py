"""Test whole attempts whose outputs have many files (HLS) or share a name."""

from hashlib import sha256

from tests.service.worker_harness import S3Proxy, WorkerHarness

pytest_plugins = ("tests.service.worker_fixtures",)

HLS = {"name": "hls", "type": "hls", "video": {"ladder": [90]}}


def video(height: int) -> dict[str, object]:
    return {"name": "video", "type": "mp4", "video": {"codec": "h264", "height": height}}


def test_an_output_of_many_files_does_not_replace_its_own_source(harness: WorkerHarness) -> None:
    (harness.bucket / "hls").mkdir()
    source = harness.bucket / "hls" / "90p_init.mp4"
    source.write_bytes((harness.bucket / "clip.mp4").read_bytes())
    before = source.read_bytes()
    job_id = harness.submit(
        f"hls/{source.name}",
        credentials=harness.keys,
        output={"url": f"s3://{harness.bucket.name}/"},
        profile=None,
        outputs=[HLS],
    )
    job = harness.await_end(job_id)
    assert job.status == "failed"
    assert job.error_code == "output_is_source"
    assert source.read_bytes() == before
    assert [path.name for path in source.parent.iterdir()] == [source.name], "nothing was published"


def test_the_files_of_an_output_are_listed(harness: WorkerHarness) -> None:
    url = {"url": f"s3://{harness.bucket.name}/listed/"}
    job = harness.await_end(harness.submit(credentials=harness.keys, output=url, profile=None, outputs=[HLS]))
    (output,) = job.outputs or ()
    folder = harness.bucket / "listed"
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    assert output["file_count"] == len(files)
    assert sorted((entry["path"], entry["size_bytes"], entry["sha256"]) for entry in output["files"]) == [
        (path.relative_to(folder).as_posix(), path.stat().st_size, sha256(path.read_bytes()).hexdigest())
        for path in files
    ]
    assert output["url"].endswith("/hls/master.m3u8")
    assert output["size_bytes"] == sum(path.stat().st_size for path in files)


def test_of_two_jobs_with_one_output_name_the_later_one_fails(harness: WorkerHarness, proxy: S3Proxy) -> None:
    """The later job must not replace the file that the status document of the first job describes."""
    prefix = {"url": f"s3://{harness.bucket.name}/shared/"}
    gate = proxy.gate("GET", "clip.mp4")
    later = harness.submit(credentials=harness.keys, output=prefix, outputs=[video(180)])
    (harness.bucket / "copy.mp4").write_bytes((harness.bucket / "clip.mp4").read_bytes())
    with gate.held():
        other = harness.submit("copy.mp4", credentials=harness.keys, output=prefix, outputs=[video(90)])
        first = harness.await_end(other)
        assert first.status == "succeeded"
    second = harness.await_end(later)
    assert (second.status, second.error_code) == ("failed", "output_conflict")
    (entry,) = (one for output in first.outputs or () for one in output["files"])
    assert sha256((harness.bucket / "shared" / entry["path"]).read_bytes()).hexdigest() == entry["sha256"]
