"""What a whole attempt makes of outputs of many files."""

from hashlib import sha256

from tests.service.workshop import Front, Workshop

pytest_plugins = ("tests.service.shop",)

HLS = {"name": "hls", "type": "hls", "video": {"ladder": [90]}}


def video(height: int) -> dict[str, object]:
    return {"name": "video", "type": "mp4", "video": {"codec": "h264", "height": height}}


def test_an_output_of_many_files_does_not_replace_its_own_source(shop: Workshop) -> None:
    (shop.bucket / "hls").mkdir()
    source = shop.bucket / "hls" / "90p_init.mp4"
    source.write_bytes((shop.bucket / "clip.mp4").read_bytes())
    before = source.read_bytes()
    job_id = shop.submit(
        f"hls/{source.name}",
        credentials=shop.keys,
        output={"url": f"s3://{shop.bucket.name}/"},
        profile=None,
        outputs=[HLS],
    )
    job = shop.end_of(job_id)
    assert job["status"] == "failed"
    assert job["last_error"]["code"] == "output_is_source"
    assert source.read_bytes() == before
    assert [path.name for path in source.parent.iterdir()] == [source.name], "nothing was published"


def test_the_files_of_an_output_are_listed(shop: Workshop) -> None:
    prefix = {"url": f"s3://{shop.bucket.name}/listed/"}
    job = shop.end_of(shop.submit(credentials=shop.keys, output=prefix, profile=None, outputs=[HLS]))
    (output,) = job["outputs"]
    folder = shop.bucket / "listed"
    made = sorted(path for path in folder.rglob("*") if path.is_file())
    assert output["file_count"] == len(made)
    assert sorted((entry["path"], entry["size_bytes"], entry["sha256"]) for entry in output["files"]) == [
        (path.relative_to(folder).as_posix(), path.stat().st_size, sha256(path.read_bytes()).hexdigest())
        for path in made
    ]
    assert output["url"].endswith("/hls/master.m3u8")
    assert output["size_bytes"] == sum(path.stat().st_size for path in made)


def test_of_two_jobs_with_one_output_name_the_later_one_fails(shop: Workshop, front: Front) -> None:
    """Its file would replace the one that the status of the other job describes."""
    prefix = {"url": f"s3://{shop.bucket.name}/shared/"}
    gate = front.gate("GET", "clip.mp4")
    later = shop.submit(credentials=shop.keys, output=prefix, outputs=[video(180)])
    (shop.bucket / "copy.mp4").write_bytes((shop.bucket / "clip.mp4").read_bytes())
    with gate.held():
        other = shop.submit("copy.mp4", credentials=shop.keys, output=prefix, outputs=[video(90)])
        first = shop.end_of(other)
        assert first["status"] == "succeeded"
    end = shop.end_of(later)
    assert (end["status"], end["last_error"]["code"]) == ("failed", "output_conflict")
    (entry,) = (one for output in first["outputs"] for one in output["files"])
    assert sha256((shop.bucket / "shared" / entry["path"]).read_bytes()).hexdigest() == entry["sha256"]
