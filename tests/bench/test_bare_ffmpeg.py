"""Test the plain ffmpeg command that a user would type instead of starting a worker."""

import subprocess
from pathlib import Path

from euterpe.bench.bare_ffmpeg import bare_command
from euterpe.media.planning.planner import plan
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.clips import Clips, clips, sandbox
from tests.media.media_steps import FILM, probe, run

__all__ = ["clips", "sandbox"]  # fixtures


def test_the_command_by_hand_makes_the_bytes_of_the_worker(
    clips: Clips, sandbox: Sandbox, tmp_path: Path
) -> None:
    source = clips.make("film.mp4")
    planned = plan([FILM], probe(sandbox, source), threads=1)
    (ours := tmp_path / "ours").mkdir()
    run(sandbox, planned, source, ours)
    (by_hand := tmp_path / "by-hand").mkdir()
    (command,) = planned.commands
    words = bare_command(planned, command, sandbox.ffmpeg, str(source))
    assert "fd:" not in words
    assert subprocess.run(words, cwd=by_hand, capture_output=True, check=True).stdout == b""
    assert (by_hand / "film.mp4").read_bytes() == (ours / "film.mp4").read_bytes()
