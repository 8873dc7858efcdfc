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
_ENCRYPTION = {
    "method": "aes-128",
    "key_url": "https://requester.example/keys/42",
    "key": "00112233445566778899aabbccddeeff",
}


def _request(summary: str, **fields: Any) -> dict[str, Any]:
    places = {"source": {"url": "s3://in/a.mov"}, "output": {"url": "s3://out/a/"}}
    return {"summary": summary, "value": {**places, **fields, "credentials": _S3}}


# One example for each type of output, and one for each further feature of a job, such as a webhook.
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
        "dash": _request(
            "DASH in VP9 and Opus",
            outputs=[
                {
                    "name": "dash",
                    "type": "dash",
                    "video": {"codec": "vp9", "ladder": "auto"},
                    "audio": {"codec": "opus", "bitrate_kbps": 96},
                }
            ],
        ),
        "adaptive": _request(
            "HLS and DASH over the same segments, with rates, two languages and subtitles",
            outputs=[
                {
                    "name": "stream",
                    "type": "adaptive",
                    "video": {
                        "codec": "h264",
                        "ladder": [
                            {"height": 1080, "crf": 22, "bitrate_kbps": 6000},
                            {"height": 720, "crf": 22, "bitrate_kbps": 3500},
                            480,
                        ],
                    },
                    "audio": [{"language": "en"}, {"language": "de"}],
                    "subtitles": "all",
                    "trick_play": True,
                }
            ],
        ),
        "mp4": _request(
            "One MP4 in HEVC, from a part of the source, with HDR and a limit on the bit rate",
            outputs=[
                {
                    "name": "video",
                    "type": "mp4",
                    "start": 12.5,
                    "end": 72.5,
                    "video": {
                        "codec": "hevc",
                        "height": 1080,
                        "crf": 24,
                        "bitrate_kbps": 5000,
                        "hdr": "keep",
                    },
                }
            ],
        ),
        "mov": _request(
            "A film for editing, with its own title and subtitles, copied where the source fits",
            outputs=[
                {
                    "name": "edit",
                    "type": "mov",
                    "video": {"copy": "auto"},
                    "audio": {"copy": "auto", "channels": "keep"},
                    "subtitles": "all",
                    "metadata": {"title": "Interview"},
                }
            ],
        ),
        "webm": _request(
            "One WebM in AV1, square",
            outputs=[
                {
                    "name": "web",
                    "type": "webm",
                    "pad": {"aspect": "1:1"},
                    "video": {"codec": "av1", "height": 720, "fps": 30},
                }
            ],
        ),
        "watermark": _request(
            "A logo in the corner of a film",
            outputs=[
                {
                    "name": "film",
                    "type": "mp4",
                    "watermark": {"source": {"url": "s3://in/logo.png"}, "position": "top_right"},
                }
            ],
        ),
        "encrypted": _request(
            "HLS with AES-128, and the key of its segments",
            outputs=[
                {
                    "name": "hls",
                    "type": "hls",
                    "video": {"ladder": "auto"},
                    "encryption": _ENCRYPTION,
                }
            ],
        ),
        "m4a": _request(
            "The sound alone", outputs=[{"name": "sound", "type": "m4a", "audio": {"bitrate_kbps": 192}}]
        ),
        "mp3": _request(
            "Speech as MP3",
            outputs=[{"name": "talk", "type": "mp3", "audio": {"channels": "mono", "bitrate_kbps": 96}}],
        ),
        "opus": _request("The sound as Opus", outputs=[{"name": "sound", "type": "opus"}]),
        "flac": _request(
            "The sound without loss",
            outputs=[
                {"name": "sound", "type": "flac", "metadata": "keep", "audio": {"channels": "keep"}},
            ],
        ),
        "image": _request(
            "Posters",
            outputs=[
                {"name": "poster", "type": "image", "at": ["10%", "50%", "12.5s"]},
                {"name": "cover", "type": "image", "at": "best", "format": "avif", "width": 1280},
            ],
        ),
        "sprite": _request(
            "Thumbnails for scrubbing",
            outputs=[{"name": "scrub", "type": "sprite", "interval_seconds": 10, "columns": 10}],
        ),
        "preview": _request(
            "An animated picture that may be missing",
            outputs=[{"name": "card", "type": "preview", "start": 30, "seconds": 4, "optional": True}],
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
            "summary": "Signed URLs instead of credentials",
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
        "album": "News",
        "artist": "The newsroom",
        "aspect": "16:9",
        "at": ["10%", "12.5s"],
        "audio": {"codec": "aac", "bitrate_kbps": 128},
        "bitrate_kbps": 128,
        "bottom": 0,
        "channels": "stereo",
        "codec": "h264",
        "columns": 10,
        "comment": "Recorded live",
        "copyright": "2026 The newsroom",
        "credentials": _S3,
        "crf": 22,
        "copy": "auto",
        "crop": {"top": 140, "bottom": 140},
        "date": "2026-03-01",
        "encryption": _ENCRYPTION,
        "end": 72.5,
        "endpoint": "https://minio.example:9000",
        "expires_at": "2026-03-01T13:00:00Z",
        "external_id": "asset-42",
        "format": "webp",
        "fps": 25,
        "fragmented": True,
        "iv": "0f0e0d0c0b0a09080706050403020100",
        "key_url": "https://requester.example/keys/42",
        "genre": "News",
        "group": {"id": "channel-7", "limit": 2},
        "hdr": "keep",
        "height": 720,
        "id": "channel-7",
        "interval_seconds": 10,
        "ladder": [1080, {"height": 720, "crf": 22, "bitrate_kbps": 3500}, 480],
        "language": "en",
        "left": 0,
        "limit": 2,
        "loudness": {"target": -16, "true_peak": -1},
        "margin_percent": 3,
        "max_attempts": 3,
        "max_source_bytes": 5_368_709_120,
        "measure": ["vmaf", "ssim"],
        "metadata": "strip",
        "name": "mp4",
        "not_before": "2026-03-01T20:00:00Z",
        "opacity": 0.8,
        "optional": True,
        "output_urls": {"mp4.mp4": "https://out.example/a.mp4?signature=EXAMPLE"},
        "pad": {"aspect": "16:9"},
        "position": "top_right",
        "priority": 50,
        "profile": "h264-720p",
        "queue": "default",
        "refresh_url": "https://requester.example/credentials",
        "region": "eu-central-1",
        "right": 0,
        "sas_token": "sv=2024-08-04&sig=EXAMPLE",
        "rotate": 90,
        "seconds": 3,
        "secret_access_key": "EXAMPLE-SECRET",
        "segment_seconds": 4,
        "service_account_json": '{"type": "service_account", "client_email": "…", "private_key": "…"}',
        "session_token": "EXAMPLE-TOKEN",
        "source_url": "https://in.example/a.mov?signature=EXAMPLE",
        "start": 12.5,
        "status_webhook_url": "https://requester.example/hook",
        "subtitles": ["en", "de"],
        "timeout_seconds": 7200,
        "title": "Interview",
        "target": -16,
        "top": 140,
        "trick_play": True,
        "true_peak": -1,
        "urls": {"mp4.mp4": "https://out.example/a.mp4?signature=EXAMPLE"},
        "video": {"codec": "h264", "height": 720, "crf": 22, "bitrate_kbps": 3500},
        "vmaf": 93,
        "vmaf_min": 85,
        "vtt": True,
        "watermark": {"source": {"url": "s3://in/logo.png"}, "position": "top_right", "width_percent": 12},
        "watermark_urls": {"mp4": "https://in.example/logo.png?signature=EXAMPLE"},
        "webhook_events": ["progress", "succeeded", "failed", "dead_letter"],
        "webhook_format": "standard",
        "allow_truncated": True,
        "storage": "main",
        "width": 480,
        "width_percent": 12,
        "AdaptiveVideo.target": {"vmaf": 93},
        "AdaptiveOutput.video": {"codec": "h264", "ladder": "auto"},
        "Audio.codec": "aac",
        "CredentialPair.source": _S3,
        "CredentialPair.output": _S3,
        "Encryption.key": _ENCRYPTION["key"],
        "Encryption.method": "aes-128",
        "DashOutput.video": {"codec": "vp9", "ladder": [1080, 720, 480]},
        "FlacOutput.audio": {"codec": "flac", "channels": "keep"},
        "HlsOutput.video": {"codec": "h264", "ladder": [1080, 720, 480]},
        "JobSpec.metadata": {"title": "Interview"},
        "JobSpec.output": {"url": "s3://out/a/"},
        "JobSpec.outputs": [{"name": "mp4", "type": "mp4", "video": {"codec": "h264", "height": 720}}],
        "JobSpec.source": {"url": "s3://in/a.mov"},
        "Mp3Output.audio": {
            "codec": "mp3",
            "bitrate_kbps": 96,
            "channels": "mono",
            "loudness": {"target": -16, "true_peak": -1},
        },
        "OpusOutput.audio": {"codec": "opus", "bitrate_kbps": 96},
        "Output.url": "s3://out/a/",
        "Source.url": "s3://in/a.mov",
        "Video.target": {"vmaf": 93},
        "Watermark.source": {"url": "s3://in/logo.png"},
        "WebmOutput.audio": {"codec": "opus", "bitrate_kbps": 96},
        "WebmOutput.video": {"codec": "vp9", "height": 720, "crf": 32},
    }
)


def example_of(field: str) -> Any:
    """Return an example of a field, `SCHEMA.NAME`. Raise KeyError if the table has no example."""
    return _FIELDS[field] if field in _FIELDS else _FIELDS[field.partition(".")[2]]
