"""Tests of the documents that describe the outputs of a job."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from euterpe.media.encoding.renditions import MadeTrack
from euterpe.media.encoding.verify import MadeFile
from euterpe.storage.transfer import Stored
from euterpe.worker.output_documents import MAX_FILES_BYTES, output_documents


def file(output: str, name: str, *, is_part: bool = False, height: int | None = None) -> MadeFile:
    return MadeFile(output, name, Path(name), "video/mp4", None if is_part else 60.0, None, height, is_part)


def stored(made: MadeFile, size: int) -> Stored:
    return Stored(f"s3://out/{made.name}", size, f"{size:064x}")


def documents(*made: MadeFile, max_files_bytes: int = MAX_FILES_BYTES) -> list[dict[str, Any]]:
    uploads = [stored(each, size) for size, each in enumerate(made, 1)]
    return output_documents(made, uploads, max_files_bytes=max_files_bytes)


def ladder(segments: int) -> list[MadeFile]:
    """Return the files of an HLS output, in the order in which they are published."""
    parts = [file("hls", f"hls/720p_{n:05}.m4s", is_part=True) for n in range(segments)]
    return [*parts, file("hls", "hls/720p.m3u8", height=720), file("hls", "hls/master.m3u8")]


def test_the_hash_and_the_address_are_those_of_the_entry_and_the_size_is_the_sum() -> None:
    hls, mp4 = documents(*ladder(2), file("mp4", "mp4.mp4"))
    assert (hls["url"], hls["sha256"]) == ("s3://out/hls/master.m3u8", f"{4:064x}")
    assert (hls["size_bytes"], hls["file_count"]) == (1 + 2 + 3 + 4, 4)
    assert [entry["path"] for entry in hls["files"]] == [made.name for made in ladder(2)]
    assert sum(entry["size_bytes"] for entry in hls["files"]) == hls["size_bytes"]
    assert mp4["files"] == [{"path": "mp4.mp4", "size_bytes": 5, "sha256": f"{5:064x}"}]


def test_thousands_of_segments_stay_within_the_bound_and_playlists_are_kept() -> None:
    hls, mp4 = documents(*ladder(8000), file("mp4", "mp4.mp4"))
    assert hls["file_count"] == 8002
    assert 800 < len(hls["files"]) < 1500
    assert [entry["path"] for entry in hls["files"][-2:]] == ["hls/720p.m3u8", "hls/master.m3u8"]
    assert hls["files"][0]["path"] == "hls/720p_00000.m4s"
    assert len(mp4["files"]) == 1
    assert len(json.dumps([hls, mp4])) < MAX_FILES_BYTES + 4096


def test_twenty_large_outputs_share_the_bound() -> None:
    made = [file(f"{n}", f"{n}/{segment:05}.m4s", is_part=True) for n in range(20) for segment in range(500)]
    found = documents(*made)
    assert len(json.dumps(found)) < MAX_FILES_BYTES + 20 * 1024
    assert min(len(document["files"]) for document in found) > 30


def picture(quality: dict[str, float] | None) -> MadeTrack:
    return MadeTrack("video", "h264", 1280, 720, 1_000_000, None, quality=quality)


def test_the_quality_of_a_ladder_has_the_lowest_of_each_score() -> None:
    upper = {"vmaf": 95.0, "psnr": 38.0, "crf": 20, "predicted_vmaf": 94.5}
    lower = {"vmaf": 90.0, "psnr": 40.0, "crf": 31, "predicted_vmaf": 91.5}
    tracks = (picture(upper), picture(lower), replace(picture(None), kind="audio"))
    (document,) = documents(replace(file("hls", "hls/master.m3u8"), tracks=tracks))
    assert document["quality"] == {"vmaf": 90.0, "psnr": 38.0}
    assert [one["quality"] for one in document["renditions"]] == [upper, lower, None]


def test_the_quality_of_a_film_is_that_of_its_picture() -> None:
    known = {"vmaf": 93.4, "crf": 31, "predicted_vmaf": 93.1, "sample_seconds": 12.0}
    film, plain = (
        replace(file("mp4", "mp4.mp4"), tracks=(picture(known),)),
        replace(file("plain", "plain.mp4"), tracks=(picture(None),)),
    )
    found = documents(film, plain)
    assert [document["quality"] for document in found] == [known, None]
