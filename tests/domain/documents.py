"""Example requests, changed copies of them, and the error messages of refused requests."""

import copy
from typing import Any

import pytest

from euterpe.domain.errors import InvalidSpec
from euterpe.domain.spec import parse_spec

Document = dict[str, Any]
Loc = tuple[str | int, ...]

MINIMAL: Document = {
    "source": {"url": "s3://in/a.mov"},
    "output": {"url": "s3://out/a/"},
    "profile": "h264-720p",
}

EXAMPLE: Document = {
    "source": {"url": "s3://in/a.mov"},
    "output": {"url": "s3://out/a/"},
    "outputs": [
        {
            "name": "hls",
            "type": "hls",
            "segment_seconds": 4,
            "video": {"codec": "h264", "ladder": [1080, 720, 480]},
            "audio": {"codec": "aac", "bitrate_kbps": 128},
        },
        {"name": "mp4", "type": "mp4", "video": {"codec": "h264", "height": 720, "crf": 22}},
        {"name": "sound", "type": "m4a", "audio": {"codec": "aac", "bitrate_kbps": 128}},
        {"name": "poster", "type": "image", "at": ["50%"]},
        {"name": "scrub", "type": "sprite", "interval_seconds": 10, "columns": 10, "vtt": True},
    ],
    "credentials": {
        "type": "s3",
        "access_key_id": "AKIAEXAMPLE",
        "secret_access_key": "a-secret-key",
        "session_token": "a-session-token",
        "region": "eu-central-1",
        "endpoint": "https://minio.example:9000",
        "expires_at": "2030-01-31T12:00:00Z",
    },
    "refresh_url": "https://requester.example/creds",
    "status_webhook_url": "https://requester.example/hook",
    "webhook_events": ["progress", "succeeded", "failed", "dead_letter"],
    "webhook_format": "euterpe",
    "queue": "default",
    "priority": 50,
    "group": None,
    "not_before": None,
    "max_attempts": 3,
    "timeout_seconds": 7200,
    "max_source_bytes": None,
    "external_id": "asset-42",
    "metadata": {"any": "json, ≤ 4 KiB"},
}
"""A request that names every field."""


def altered(document: Document, *loc: str | int, to: object) -> Document:
    """Return a copy with another value at `loc`. The last part of `loc` may be a new key."""
    changed = copy.deepcopy(document)
    parent: Any = changed
    for step in loc[:-1]:
        parent = parent[step]
    parent[loc[-1]] = to
    return changed


def refusals(document: object) -> dict[Loc, str]:
    with pytest.raises(InvalidSpec) as refused:
        parse_spec(document)
    return messages_of(refused.value)


def messages_of(refused: InvalidSpec) -> dict[Loc, str]:
    return {error.loc: error.msg for error in refused.errors}
