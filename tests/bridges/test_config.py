"""`euterpe/bridges/config.py`: the declared bridges. All errors are reported at once, without secrets."""

from pathlib import Path

import pytest

from euterpe.bridges.config import BridgeKind, InvalidBridges, read_bridges
from euterpe.domain.profiles import built_in_profiles

ADDRESS = "redis://:hunter2@redis.internal:6379/0"
ENVIRON = {"VIDEOS_REDIS": ADDRESS, "PG": "postgresql://u:hunter2@db/jobs"}
JOB = """
source = "{data.source}"
output = "s3://media-out/{id}/"
profile = "h264-720p"
"""
BRIDGE = """
[bridge.videos]
kind = "bullmq"
url_env = "VIDEOS_REDIS"
queue = "video-jobs"
requester = "newsroom"
"""


def read(folder: Path, text: str) -> dict[str, object]:
    path = folder / "bridges.toml"
    path.write_text(text)
    return dict(read_bridges(path, ENVIRON, built_in_profiles()))


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(InvalidBridges) as refused:
        read(folder, text)
    assert "hunter2" not in str(refused.value)
    return [problem.removeprefix(f"{folder}/bridges.toml: ") for problem in refused.value.problems]


def test_the_example_of_the_interface_is_read(tmp_path: Path) -> None:
    path = tmp_path / "bridges.toml"
    path.write_text(
        BRIDGE
        + """
slots = 8
lease_ms = 60000
[bridge.videos.jobs.transcode]
when = {tool = "transcode"}
source = "{data.source}"
output = "s3://media-out/{id}/"
profile = "{data.profile|h264-720p}"
profiles = ["h264-720p", "audio-aac"]
storage = "main"
external_id = "{data.videoId}"
priority = {0 = 50, 1 = 90, 10 = 60, default = 50}
"""
    )
    bridge = read_bridges(path, ENVIRON, built_in_profiles())["videos"]
    assert (bridge.kind, bridge.queue, bridge.url) == (BridgeKind.BULLMQ, "video-jobs", ADDRESS)
    assert (bridge.requester, bridge.slots, bridge.lease_ms) == ("newsroom", 8, 60_000)
    job = bridge.jobs["transcode"]
    assert (job.storage, set(job.profiles)) == ("main", {"h264-720p", "audio-aac"})
    assert job.priority == {"0": 50, "1": 90, "10": 60, "default": 50}


def test_a_bridge_does_not_show_its_address(tmp_path: Path) -> None:
    bridges = read(tmp_path, f"{BRIDGE}[bridge.videos.jobs.transcode]{JOB}")
    assert "hunter2" not in repr(bridges)


def test_every_error_of_every_bridge_is_named(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        f"""
title = "x"
[bridge.Videos]
kind = "bulmq"
url_env = 1
[bridge.streams]
kind = "streams"
url_env = "NOT_SET"
queue = "a"
requester = "newsroom"
[bridge.streams.jobs.tool]{JOB}
[bridge.pg]
kind = "bullmq-postgres"
url_env = "VIDEOS_REDIS"
queue = "a"
prefix = "b"
requester = "newsroom"
[bridge.pg.jobs.a]
source = "s3://{{data.bucket}}/x"
output = "s3://out/{{id}}{{name}}/"
profile = "{{data.profile}}"
[bridge.c]
kind = "omniq"
url_env = "VIDEOS_REDIS"
queue = "a"
requester = "newsroom"
surprise = true
[bridge.c.jobs.a]
source = "s3://{{data.b"
output = "s3://a/{{id+1}}/"
profile = "nope"
priority = {{a = 1}}
[bridge.d]
kind = "bullmq"
url_env = "VIDEOS_REDIS"
queue = "a"
requester = "newsroom"
[bridge.d.jobs.a]
source = "s3://in/a"
output = "s3://out/{{id}}/"
profile = "nope"
""",
    )
    kinds = "bullmq, bullmq-postgres, omniq, streams"
    name = "1 to 64 characters of a-z, 0-9, '.', '_' and '-', the first a letter or a digit"
    assert found == [
        "'title' is not a known table; bridges are tables [bridge.NAME]",
        f"bridge.Videos: the name must be {name}",
        "bridge.Videos: jobs is required",
        f"bridge.Videos: kind must be one of {kinds}",
        "bridge.Videos: requester is required",
        "bridge.Videos: url_env must be a string",
        "bridge.streams: stream is required for the kind streams",
        "bridge.streams: queue is not a field of the kind streams",
        "bridge.streams: url_env must name an environment variable that is set: NOT_SET is not",
        "bridge.pg: prefix is not a field of the kind bullmq-postgres",
        "bridge.pg: url_env must name a URL that begins with postgresql:// or postgres://",
        "bridge.pg: jobs.a.source may have placeholders only in the path, after scheme://bucket/, or be one "
        "placeholder alone",
        "bridge.pg: jobs.a.output may have one placeholder between two slashes",
        "bridge.pg: jobs.a.profiles is required: list the profiles that a payload may name",
        "bridge.c: jobs.a.output may have {id}, {name}, {ref} and paths like {data.a.b} as placeholders",
        "bridge.c: jobs.a.priority must have numbers and `default` as keys",
        "bridge.c: jobs.a.source has a brace that belongs to no placeholder",
        "bridge.c: surprise is not a known field",
        "bridge.d: jobs.a.profiles has no profile of this installation: nope",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no table [bridge.NAME]"),
        ("bridge = 1", "has no table [bridge.NAME]"),
        ("[bridge.videos", "Expected"),
        (f"x = {'[' * 3000}", "has a number or a nesting that is too large to parse"),
        (f"x = '{'x' * 1024**2}'", "is larger than 1048576 bytes"),
    ],
)
def test_a_broken_file_is_one_error(tmp_path: Path, text: str, problem: str) -> None:
    (found,) = problems(tmp_path, text)
    assert problem in found


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidBridges, match="cannot be read: No such file"):
        read_bridges(tmp_path / "no.toml", {}, built_in_profiles())


def test_a_default_profile_must_be_allowed(tmp_path: Path) -> None:
    (found,) = problems(
        tmp_path,
        f"""{BRIDGE}[bridge.videos.jobs.a]
source = "{{data.source}}"
output = "s3://out/{{id}}/"
profile = "{{data.profile|poster}}"
profiles = ["h264-720p"]
""",
    )
    assert found == "bridge.videos: jobs.a.profile must be one of its profiles, and is also poster"


@pytest.mark.parametrize("output", ["s3://out/", "s3://out/{name}/"])
def test_an_output_that_all_jobs_share_is_an_error(tmp_path: Path, output: str) -> None:
    text = f"{BRIDGE}[bridge.videos.jobs.a]{JOB}".replace("s3://media-out/{id}/", output)
    assert problems(tmp_path, text) == [
        "bridge.videos: jobs.a.output must contain {id} or {ref}, because all jobs would share one place"
    ]


@pytest.mark.parametrize("output", ["s3://out/{ref}/", "s3://out/{data.videoId}/", "{data.output}"])
def test_an_output_may_depend_on_the_job_in_another_way(tmp_path: Path, output: str) -> None:
    read(tmp_path, f"{BRIDGE}[bridge.videos.jobs.a]{JOB}".replace("s3://media-out/{id}/", output))


def test_a_mapping_of_a_stream_is_named_after_a_task(tmp_path: Path) -> None:
    stream = BRIDGE.replace('"bullmq"', '"streams"').replace("queue", "stream")
    assert problems(tmp_path, f"{stream}[bridge.videos.jobs.tools]{JOB}") == [
        "bridge.videos: jobs.tools must be chat, plan, code, tool, rag, embed or *: "
        "a stream has no other tasks"
    ]
    for name in ("tool", "'*'"):
        read(tmp_path, f"{stream}[bridge.videos.jobs.{name}]{JOB}")
