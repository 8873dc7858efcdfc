"""Examples for the OpenAPI document: whole requests, and a value for each field of a schema."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

JOB_ID = "01937b1e-6f3a-7c52-8d0e-5a4c1b2f9e77"
_S3 = {
    "type": "s3",
    "access_key_id": "ASIAEXAMPLE",
    "secret_access_key": "EXAMPLE-SECRET",
    "session_token": "EXAMPLE-TOKEN",
    "region": "eu-central-1",
}


def _request(summary: str, **fields: Any) -> dict[str, Any]:
    places = {"source": {"url": "s3://in/a.mov"}, "output": {"url": "s3://out/a/"}}
    return {"summary": summary, "value": {**places, **fields, "credentials": _S3}}


# There is one example for each type of output, and one example for each other form of a job.
SUBMIT_EXAMPLES: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "profile": _request("A built-in profile", profile="h264-720p"),
        "hls": _request(
            "HLS with three renditions",
            outputs=[
                {
                    "name": "hls",
                    "type": "hls",
                    "segment_seconds": 4,
                    "video": {"codec": "h264", "ladder": [1080, 720, 480]},
                    "audio": {"codec": "aac", "bitrate_kbps": 128},
                }
            ],
        ),
        "mp4": _request(
            "One MP4 in HEVC",
            outputs=[{"name": "video", "type": "mp4", "video": {"codec": "hevc", "height": 720, "crf": 26}}],
        ),
        "m4a": _request(
            "The sound alone", outputs=[{"name": "sound", "type": "m4a", "audio": {"bitrate_kbps": 192}}]
        ),
        "image": _request(
            "Posters", outputs=[{"name": "poster", "type": "image", "at": ["10%", "50%", "12.5s"]}]
        ),
        "sprite": _request(
            "Thumbnails for scrubbing",
            outputs=[{"name": "scrub", "type": "sprite", "interval_seconds": 10, "columns": 10}],
        ),
        "webhook": _request(
            "A webhook, a refresh URL, and an order within a group",
            profile="h264-720p",
            status_webhook_url="https://requester.example/hook",
            refresh_url="https://requester.example/credentials",
            webhook_events=["progress", "succeeded", "failed", "dead_letter"],
            group={"id": "channel-7", "limit": 2},
            priority=80,
            external_id="asset-42",
            metadata={"title": "Interview"},
        ),
        "signed_urls": {
            "summary": "Signed URLs in place of credentials",
            "value": {
                "source": {"url": "https://in.example/a.mov?signature=EXAMPLE"},
                "output": {"urls": {"mp4.mp4": "https://out.example/a.mp4?signature=EXAMPLE"}},
                "profile": "h264-720p",
            },
        },
    }
)
CREDENTIALS_EXAMPLES: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "s3": {"summary": "New keys", "value": {"credentials": _S3}},
        "signed_urls": {
            "summary": "The same URLs with new signatures",
            "value": {
                "credentials": None,
                "source_url": "https://in.example/a.mov?signature=EXAMPLE",
                "output_urls": {"mp4.mp4": "https://out.example/a.mp4?signature=EXAMPLE"},
            },
        },
    }
)

_AT, _LATER = "2026-03-01T12:00:00.000Z", "2026-03-01T12:01:30.000Z"
_SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
# Example values by field name. A field whose meaning depends on the schema is listed as `SCHEMA.NAME`.
_FIELDS: Mapping[str, Any] = MappingProxyType(
    {
        "access_key_id": "ASIAEXAMPLE",
        "access_token": "ya29.example",
        "account_key": "bWFkZSBvZiBub3RoaW5n",
        "account_name": "mediaout",
        "at": ["10%", "12.5s"],
        "audio": {"codec": "aac", "bitrate_kbps": 128},
        "bitrate_kbps": 128,
        "codec": "h264",
        "columns": 10,
        "credentials": _S3,
        "crf": 22,
        "endpoint": "https://minio.example:9000",
        "expires_at": "2026-03-01T13:00:00Z",
        "external_id": "asset-42",
        "group": {"id": "channel-7", "limit": 2},
        "height": 720,
        "id": "channel-7",
        "interval_seconds": 10,
        "ladder": [1080, 720, 480],
        "limit": 2,
        "max_attempts": 3,
        "max_source_bytes": 5_368_709_120,
        "metadata": {"title": "Interview"},
        "name": "mp4",
        "not_before": "2026-03-01T20:00:00Z",
        "output_urls": {"mp4.mp4": "https://out.example/a.mp4?signature=EXAMPLE"},
        "priority": 50,
        "profile": "h264-720p",
        "queue": "default",
        "refresh_url": "https://requester.example/credentials",
        "region": "eu-central-1",
        "sas_token": "sv=2024-08-04&sig=EXAMPLE",
        "secret_access_key": "EXAMPLE-SECRET",
        "segment_seconds": 4,
        "service_account_json": '{"type": "service_account", "client_email": "…", "private_key": "…"}',
        "session_token": "EXAMPLE-TOKEN",
        "source_url": "https://in.example/a.mov?signature=EXAMPLE",
        "status_webhook_url": "https://requester.example/hook",
        "timeout_seconds": 7200,
        "urls": {"mp4.mp4": "https://out.example/a.mp4?signature=EXAMPLE"},
        "vtt": True,
        "webhook_events": ["progress", "succeeded", "failed", "dead_letter"],
        "webhook_format": "standard",
        "CredentialPair.source": _S3,
        "CredentialPair.output": _S3,
        "HlsOutput.video": {"codec": "h264", "ladder": [1080, 720, 480]},
        "JobSpec.output": {"url": "s3://out/a/"},
        "JobSpec.outputs": [{"name": "mp4", "type": "mp4", "video": {"codec": "h264", "height": 720}}],
        "JobSpec.source": {"url": "s3://in/a.mov"},
        "Mp4Output.video": {"codec": "h264", "height": 720},
        "Output.url": "s3://out/a/",
        "Source.url": "s3://in/a.mov",
    }
)


def example_of(field: str) -> Any:
    """Return an example of a field, `SCHEMA.NAME`. Raise KeyError if the table has no example."""
    return _FIELDS[field] if field in _FIELDS else _FIELDS[field.partition(".")[2]]
