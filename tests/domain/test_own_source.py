"""Detection of a job whose output would overwrite its own source."""

from typing import Any

import pytest

from euterpe.domain.own_source import find_overwritten_source, replaces_its_source
from euterpe.domain.spec import JobSpec, parse_spec

S3 = {"type": "s3", "access_key_id": "a", "secret_access_key": "b"}


def spec(source: str, output: str | dict[str, str], **fields: Any) -> JobSpec:
    target = {"url": output} if isinstance(output, str) else {"urls": output}
    outputs = {
        "outputs": [
            {"name": "mp4", "type": "mp4"},
            {"name": "hls", "type": "hls", "video": {"ladder": [720]}},
        ]
    }
    return parse_spec({"source": {"url": source}, "output": target, **outputs, **fields})


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("s3://b/out/mp4.mp4", "s3://b/out/"),
        ("s3://b/o%75t/mp4%2Emp4", "s3://b/out/"),
        ("s3://b/out/mp4.mp4", "s3://b/%6Fut/"),
        ("file:///media/a/mp4.mp4", "file:///media/a/"),
        ("https://h/mp4.mp4?sig=1", {"mp4.mp4": "https://H:443/mp4.mp4?sig=2"}),
    ],
)
def test_an_output_onto_its_own_source_is_known_from_the_spec(
    source: str, output: str | dict[str, str]
) -> None:
    assert replaces_its_source(spec(source, output))


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("s3://b/out/a.mp4", "s3://b/out/"),
        ("s3://c/out/mp4.mp4", "s3://b/out/"),
        ("gs://b/out/mp4.mp4", "s3://b/out/"),
        ("s3://b/OUT/mp4.mp4", "s3://b/out/"),
        ("https://h/a.mp4", {"mp4.mp4": "https://h/mp4.mp4"}),
    ],
)
def test_an_output_to_another_object_replaces_no_source(source: str, output: str | dict[str, str]) -> None:
    assert not replaces_its_source(spec(source, output))


@pytest.mark.parametrize(
    ("mark", "output"),
    [
        ("s3://b/out/card.webp", "s3://b/out/"),
        ("file:///media/a/card%2Ewebp", "file:///media/a/"),
        ("https://h/logo.webp?sig=1", {"card.webp": "https://H:443/logo.webp?sig=2"}),
    ],
)
def test_an_output_onto_its_own_watermark_is_known_from_the_spec(
    mark: str, output: str | dict[str, str]
) -> None:
    card = {"name": "card", "type": "preview", "watermark": {"source": {"url": mark}}}
    assert replaces_its_source(spec("gs://b/out/film.mp4", output, outputs=[card]))
    still = {"name": "card", "type": "image", "at": ["0s"], "watermark": {"source": {"url": mark}}}
    job = spec("gs://b/out/film.mp4", output, outputs=[still])
    assert find_overwritten_source(job, ["card/1.jpg", "card.webp"]) == "card.webp"


def test_buckets_of_one_name_at_two_endpoints_are_two_buckets() -> None:
    pair = {"source": {**S3, "endpoint": "https://one.example"}, "output": S3}
    assert not replaces_its_source(spec("s3://b/out/mp4.mp4", "s3://b/out/", credentials=pair))
    assert replaces_its_source(
        spec("s3://b/out/mp4.mp4", "s3://b/out/", credentials={"source": S3, "output": S3})
    )


@pytest.mark.parametrize(
    "output",
    [{"type": kind} for kind in ("mp4", "mov", "webm", "m4a", "mp3", "opus", "flac")]
    + [{"type": "preview", "format": "gif"}, {"type": "preview", "format": "webp"}],
)
def test_every_output_that_is_one_file_is_compared(output: dict[str, str]) -> None:
    outputs = [{"name": "a", **output}]
    for suffix in ("mp4", "mov", "webm", "m4a", "mp3", "opus", "flac", "gif", "webp"):
        job = spec(f"s3://b/a.{suffix}", "s3://b/", outputs=outputs)
        assert replaces_its_source(job) == (suffix == output.get("format", output["type"]))


@pytest.mark.parametrize(
    ("source", "part"),
    [("00000.m4s", "00000.m4s"), ("%3Fa.m4s", "?a.m4s"), ("%23a.m4s", "#a.m4s"), ("%2523.m4s", "%23.m4s")],
)
def test_a_part_is_compared_by_its_whole_name(source: str, part: str) -> None:
    """The comparison does not rely on `verify`, which refuses names with `?` or `#`."""
    job = spec(f"s3://b/out/hls/360p_{source}", "s3://b/out/")
    assert find_overwritten_source(job, ["hls/360p.m3u8", f"hls/360p_{part}"]) == f"hls/360p_{part}"


def test_the_files_of_a_folder_are_compared_when_they_are_known() -> None:
    job = spec("s3://b/out/hls/master.m3u8", "s3://b/out/")
    assert not replaces_its_source(job)
    assert find_overwritten_source(job, ["hls/720p.m3u8", "hls/master.m3u8"]) == "hls/master.m3u8"
