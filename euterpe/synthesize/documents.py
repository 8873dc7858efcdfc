"""Build the JSON documents that the store keeps for a job: spec, source info, outputs and timings."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from euterpe.domain.canonical import split_secrets
from euterpe.domain.spec import parse_spec
from euterpe.domain.units import iso_or_none
from euterpe.synthesize.customers import RequesterProfile

Document = dict[str, Any]
Row = Mapping[str, Any]

_BUCKETS = {"s3": "s3://media", "gs": "gs://media", "az": "az://media", "file": "file:///srv/media"}
_BUCKETS["https"] = "https://media.example"
# The name, content type and height of each output, by profile.
_MADE: Mapping[str | None, tuple[tuple[str, str, int | None], ...]] = {
    "h264-720p": (("mp4", "video/mp4", 720),),
    "audio-aac": (("audio", "audio/mp4", None),),
    "hevc-1080p": (("mp4", "video/mp4", 1080),),
    "av1-1080p": (("mp4", "video/mp4", 1080),),
    "hls-ladder": (("hls", "application/vnd.apple.mpegurl", 1080),),
    None: (("large", "video/mp4", 1080), ("small", "video/mp4", 360), ("sound", "audio/mp4", None)),
}


def spec_document(job: Row, who: RequesterProfile) -> Document:
    """Return the spec without secrets, in the same form as `split_secrets` returns it."""
    return {
        **_plain(),
        "source": {"url": f"{_BUCKETS[job['source_scheme']]}/in/{job['job_id']}.mov"},
        "output": {"url": _output_prefix(job), "urls": None},
        "profile": job["profile"],
        "outputs": _plain()["outputs"] if job["profile"] is None else None,
        "refresh_url": "https://requester.example/credentials" if who.refreshes else None,
        "status_webhook_url": "https://requester.example/hook" if who.receiver else None,
        "webhook_events": None if who.hears is None else list(who.hears),
        "queue": job["queue"],
        "priority": job["priority"],
        "group": job["group_id"] and {"id": job["group_id"], "limit": 1},
        "not_before": iso_or_none(job["not_before"]),
        "max_attempts": job["max_attempts"],
        "external_id": external_id(job),
    }


@cache
def _plain() -> Document:
    """Return a spec document in which every field has its default."""
    outputs = [
        {"name": "large", "type": "mp4", "video": {"codec": "h264", "height": 1080}},
        {"name": "small", "type": "mp4", "video": {"codec": "h264", "height": 360}},
        {"name": "sound", "type": "m4a"},
    ]
    urls = {"source": {"url": "s3://media/a"}, "output": {"url": "s3://media/b/"}}
    return split_secrets(parse_spec({**urls, "outputs": outputs}))[0]


def external_id(job: Row) -> str:
    return f"asset-{job['job_id'][-8:]}"


def source_document(job: Row) -> Document | None:
    """Return the source info, or None if the source was never probed."""
    if job["source_container"] is None:
        return None
    seconds = job["source_seconds"]
    return {
        "duration_seconds": seconds,
        "size_bytes": job["source_bytes"],
        "container": job["source_container"],
        "streams": [
            {"kind": "video", "codec": "h264", "duration_seconds": seconds, "width": 1920, "height": 1080},
            {
                "kind": "audio",
                "codec": "aac",
                "duration_seconds": seconds,
                "channels": 2,
                "sample_rate": 48000,
            },
        ],
    }


def output_documents(job: Row) -> list[Document] | None:
    if not job["outputs"]:
        return None
    made = _MADE[job["profile"]]
    each, rest = divmod(job["output_bytes"], len(made))
    return [
        {
            "name": name,
            "url": f"{_output_prefix(job)}{name}",
            "content_type": content_type,
            "size_bytes": each + (rest if place == 0 else 0),
            "sha256": job["job_id"].replace("-", "") * 2,
            "duration_seconds": job["source_seconds"],
            "width": height and height * 16 // 9,
            "height": height,
            "file_count": 1,
            "files": [],
        }
        for place, (name, content_type, height) in enumerate(made)
    ]


def _output_prefix(job: Row) -> str:
    return f"{_BUCKETS[job['output_scheme']]}/out/{job['job_id']}/"


_TIMED = (
    *(
        "ffmpeg",
        "fetch_ms",
        "probe_ms",
        "encode_ms",
        "verify_ms",
        "upload_ms",
        "cpu_seconds",
        "media_seconds",
    ),
    *("bytes_in", "bytes_out", "vmaf"),
)


def timings_document(attempt: Row) -> Document | None:
    """Return the attempt's timings, or None if the worker recorded none."""
    if attempt["ffmpeg"] is None:
        return None
    return {name: attempt[name] for name in _TIMED if attempt[name] is not None}
