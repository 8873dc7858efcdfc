"""Test `euterpe demo`, the first command of the README, as a process in an empty folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import m3u8
import pytest
import webvtt

from euterpe.cli.demo.clip import SECONDS
from euterpe.media.ffmpeg import find_ffmpeg


def run_demo(folder: Path, **environ: str) -> dict[str, str]:
    """Run the demo, and return the lines that it prints, by their first word."""
    command = [sys.executable, "-m", "euterpe", "demo", "--dir", str(folder)]
    ended = subprocess.run(
        command, env={**os.environ, **environ}, capture_output=True, text=True, timeout=600, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    out = [line.partition(" ") for line in ended.stdout.splitlines()]
    return {word: rest.strip() for word, _, rest in out}


def test_the_demo_ends_with_outputs_that_play_and_the_report_of_its_own_run(tmp_path: Path) -> None:
    out = run_demo(tmp_path / "demo")
    assert out["webhooks"].startswith("5 signed and verified: claimed, fetching, processing, uploading, suc")
    stream = Path(out["stream"].removeprefix("file://"))
    master = m3u8.load(str(stream.with_name("master.m3u8")))
    heights = sorted(playlist.stream_info.resolution[1] for playlist in master.playlists)
    assert heights == [240, 360, 480, 720]
    assert {media.language for media in master.media if media.type == "AUDIO"} == {"en", "de"}
    assert {media.language for media in master.media if media.type == "SUBTITLES"} == {"en"}
    site = tmp_path / "demo" / "site"
    playlist = str(site / "media" / "stream" / "720p.m3u8")
    played = [str(find_ffmpeg()), "-v", "error", "-i", playlist, "-f", "null", "-"]
    assert subprocess.run(played, capture_output=True, check=True).stderr == b""
    assert len(webvtt.read(str(site / "media" / "thumbnails" / "sprite.vtt")).captions) == SECONDS
    assert {"index.html", "outputs.json", "media"} < {path.name for path in site.iterdir()}

    report = tmp_path / "demo" / "report"
    assert out["report"] == (report / "report.html").as_uri()
    document = json.loads((report / "report.json").read_text())
    assert document["totals"] == {"jobs": 1, "attempts": 1, "deliveries": 5}
    (day,) = document["marts"]["throughput"]["rows"]
    assert (day["requester"], day["succeeded"]) == ("demo", 1)
    assert day["output_minutes"] == pytest.approx(SECONDS / 60)


def test_where_java_is_missing_the_demo_says_what_it_leaves_out(tmp_path: Path) -> None:
    out = run_demo(tmp_path / "demo", JAVA_HOME=str(tmp_path))
    assert out["report"].startswith("left out: no Java was found, and Spark needs Java 17 or newer")
    assert "succeeded" in out["webhooks"]
