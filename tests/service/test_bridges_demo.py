"""Test `ci/demo --bridges`: programs of producers, unchanged, each with the real client of its system."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_producers_of_three_systems_run_unchanged(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    command = [sys.executable, "-m", "ci.bridges_demo", "--dir", str(folder)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    said = [line.split() for line in ended.stdout.splitlines()]
    assert ["event", "done"] in said
    assert [words for words in said if words[:1] == ["completed"]]
    (gateway,) = [json.loads(" ".join(words)) for words in said if words[0].startswith("{")]
    assert gateway["status"] == "done"
    jobs = [words for words in said if words[0] == "job"]
    assert [words[-3:] for words in jobs] == [["succeeded,", "1", "attempt"]] * 3
    assert {words[3].partition(":")[0] for words in jobs} == {"bullmq", "omniq", "stream"}
    made = sorted(path.parts[-3] for path in (folder / "media").glob("*/*/*.mp4"))
    assert made == ["bullmq", "gateway", "omniq"]
    for example in (ROOT / "ci" / "bridges_examples").iterdir():
        code = example.read_text().lower().replace("knows nothing of euterpe", "")
        assert "euterpe" not in code, example.name
