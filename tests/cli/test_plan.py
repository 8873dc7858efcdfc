"""`euterpe plan` shows the plan of a job for a file, and `submit --dry-run` requests it from the service."""

import json
from pathlib import Path

import pytest

from euterpe.crypto import apikeys
from euterpe.domain.documents import PlanDocument, example_document
from euterpe.media.planning.documents import read_plan
from tests.cli.command_runner import Cli
from tests.client.scripted_server import Answer, problem, running
from tests.media.clips import Clips

FILM = ("--output", "mp4,height=90")


def test_the_tracks_and_sizes_of_a_file_are_shown(cli: Cli, clips: Clips) -> None:
    lines = cli.ok("plan", str(clips.make("film.mp4")), *FILM).out.splitlines()
    assert lines[0].startswith("mp4  2")
    assert "about" in lines[0]
    assert lines[2].split()[:4] == ["video", "h264", "encode", "160×90"]
    assert lines[3].split()[:3] == ["audio", "aac", "encode"]


def test_what_is_left_out_is_shown(cli: Cli, clips: Clips) -> None:
    out = cli.ok("plan", str(clips.make("hdr.mp4")), *FILM).out
    assert "hdr_mapped_to_sdr" in out


def test_the_json_is_a_plan_document(cli: Cli, clips: Clips) -> None:
    found = cli.json("plan", str(clips.make("film.mp4")), "--profile", "poster")
    assert found["is_exact"]
    assert [output["name"] for output in found["outputs"]] == ["poster"]


def test_a_plan_with_a_watermark_is_exact_because_the_whole_source_is_read(cli: Cli, clips: Clips) -> None:
    source = str(clips.make("film.mp4"))
    marked = ("--output", "mp4,watermark.source.url=s3://in/logo.png,position=top_right")
    assert cli.json("plan", source, *marked)["is_exact"]
    cli.ok("plan", source, *marked)


def test_the_size_of_an_output_with_a_target_is_not_known(cli: Cli, clips: Clips) -> None:
    source = str(clips.make("film.mp4"))
    searched, fixed = ("--output", "mp4,target.vmaf=93"), ("--output", "mp4,name=fixed")
    heading = cli.ok("plan", source, *searched).out.splitlines()[0]
    assert heading.endswith("size not known before the search for `target`")
    first, second = cli.json("plan", source, *searched, *fixed)["outputs"]
    assert first["expected_bytes"] is first["tracks"][0]["bitrate"] is None
    assert second["expected_bytes"] > 0


def test_the_watermark_the_target_and_the_encryption_are_shown(cli: Cli, clips: Clips) -> None:
    """An earlier version showed the same plan with and without them."""
    lock = {"key_url": "https://keys.example/1", "key": "c0ffee11c0ffee22c0ffee33c0ffee44"}
    mark = {"source": {"url": "s3://in/logo.png"}, "position": "top_right"}
    marked = {"name": "marked", "type": "mp4", "watermark": mark, "video": {"target": {"vmaf": 93}}}
    locked = {"name": "locked", "type": "hls", "video": {"ladder": [90]}, "encryption": lock}
    plain = {"name": "plain", "type": "mp4"}
    Path("job.json").write_text(json.dumps({"outputs": [marked, locked, plain]}))
    ask = ("plan", str(clips.make("film.mp4")), "--spec", "job.json")
    found = [(one["watermark"], one["target_vmaf"], one["encryption"]) for one in cli.json(*ask)["outputs"]]
    assert found == [("top_right", 93, None), (None, None, "aes-128"), (None, None, None)]
    headings = {line.split()[0]: line for line in cli.ok(*ask).out.splitlines() if line}
    assert headings["marked"].endswith(
        "watermark at top_right, target VMAF 93, size not known before the search for `target`"
    )
    assert headings["locked"].endswith("encrypted (aes-128)")
    assert "watermark" not in headings["plain"]
    assert "encrypted" not in headings["plain"]


def test_the_tree_is_the_plan_that_a_worker_would_run(cli: Cli, clips: Clips) -> None:
    ran = cli.ok("plan", str(clips.make("film.mp4")), *FILM, "--tree")
    assert read_plan(ran.json).outputs == ("mp4",)


def test_a_spec_gives_the_outputs(cli: Cli, clips: Clips) -> None:
    Path("job.json").write_text(json.dumps({"profile": "poster", "source": {"url": "s3://in/a"}}))
    source = str(clips.make("film.mp4"))
    assert cli.json("plan", source, "--spec", "job.json")["outputs"][0]["name"] == "poster"
    assert cli.json("plan", source, "--spec", "job.json", *FILM)["outputs"][0]["name"] == "mp4"


@pytest.mark.parametrize("form", [(), ("--json",), ("--tree",)])
def test_the_key_of_an_encrypted_output_is_not_shown(cli: Cli, clips: Clips, form: tuple[str, ...]) -> None:
    key = "c0ffee11c0ffee22c0ffee33c0ffee44"
    lock = {"key_url": "https://keys.example/1", "key": key}
    hls = {"name": "hls", "type": "hls", "video": {"ladder": [90]}, "encryption": lock}
    Path("job.json").write_text(json.dumps({"outputs": [hls]}))
    ran = cli.ok("plan", str(clips.make("film.mp4")), "--spec", "job.json", *form)
    assert "90p" in ran.out or "160" in ran.out
    assert key not in ran.out + ran.err


def test_wrong_options_and_files_are_named(cli: Cli, clips: Clips, tmp_path: Path) -> None:
    source = str(clips.make("film.mp4"))
    assert "--profile, --output and --spec" in cli.fails("plan", source, code=2)
    assert "none.mp4" in cli.fails("plan", "none.mp4", *FILM, code=2)
    (tmp_path / "text.mp4").write_text("no media")
    assert "not a media file" in cli.fails("plan", str(tmp_path / "text.mp4"), *FILM)


def test_a_dry_run_asks_the_service_and_submits_nothing(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = example_document(PlanDocument)
    monkeypatch.setenv("EUTERPE_API_KEY", apikeys.mint().plaintext)
    submit = ("submit", "s3://in/a.mov", "--to", "s3://out/a/", "--profile", "h264-720p", "--dry-run")
    with running() as server:
        monkeypatch.setenv("EUTERPE_URL", server.url)
        server.script(Answer(200, plan), Answer(200, plan))
        assert cli(*submit, "--json").json == plan
        assert "1280×720" in cli.ok(*submit).out
        assert {(one.method, one.path) for one in server.requests} == {("POST", "/transcode")}
        assert all([*one.query] == [("dry_run", "true")] for one in server.requests)
        server.script(problem(422, "dry_run_failed", "source_not_found: s3://in/a.mov: not there"))
        assert "source_not_found" in cli.fails(*submit)
