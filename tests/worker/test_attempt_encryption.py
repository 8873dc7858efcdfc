"""Tests of attempts with encrypted HLS: the key decrypts the files, and appears in no row, log or file."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from structlog.testing import capture_logs

from euterpe.domain.rows import JobRow, columns
from euterpe.domain.spec import parse_spec
from euterpe.store.store import Store
from euterpe.store.tables import inbox_jobs
from euterpe.worker.attempt import Attempt
from euterpe.worker.attempt_control import AttemptControl
from euterpe.worker.tools import Tools
from tests.media.clips import Clips
from tests.service.canaries import files_below, find_leaks, rows_of
from tests.worker.planes import claim_leased

KEY = bytes.fromhex("c0ffee11c0ffee22c0ffee33c0ffee44")
HLS = {
    "name": "hls",
    "type": "hls",
    "segment_seconds": 1,
    "video": {"ladder": [90]},
    "encryption": {"key_url": "https://keys.example/1", "key": KEY.hex()},
}
OTHER_KEY = bytes.fromhex("badc0de1badc0de2badc0de3badc0de4")
OTHER = HLS | {"name": "other", "encryption": {"key_url": "https://keys.example/2", "key": OTHER_KEY.hex()}}


@pytest.fixture(autouse=True)
def _started(tools: Tools) -> Iterator[None]:
    tools.workdir.open()
    with tools.sandbox:
        yield
    tools.workdir.close()


def run(store: Store, tools: Tools, clips: Clips, folder: Path, **damage: Any) -> tuple[JobRow, bytes]:
    """Set the columns of `damage` in the row of a job, run the job, and return its row and the log."""
    (folder / "source.mp4").write_bytes(clips.make("film.mp4").read_bytes())
    (folder / "out").mkdir()
    spec = {
        "source": {"url": f"file://{folder}/source.mp4"},
        "output": {"url": f"file://{folder}/out/"},
        "outputs": [HLS, OTHER],
    }
    job_id = store.submit(parse_spec(spec), "r1").result(timeout=60).job_id
    if damage:
        with store.database.transaction() as connection:
            connection.execute(sa.update(inbox_jobs).values(damage))
    with capture_logs() as logs:
        Attempt(tools, AttemptControl(claim_leased(store), 60)).run()
    return store.jobs.get(job_id), repr(logs).encode()


def test_a_job_is_encrypted_and_its_key_is_nowhere(
    store: Store, tools: Tools, clips: Clips, tmp_path: Path
) -> None:
    row, logs = run(store, tools, clips, tmp_path)
    assert row.status == "succeeded", row.last_error
    for output in row.outputs or ():
        for file in output["files"]:
            stored = (tmp_path / "out" / file["path"]).read_bytes()
            assert (file["size_bytes"], file["sha256"]) == (len(stored), hashlib.sha256(stored).hexdigest())
            assert not file["path"].endswith(".m4s") or b"moof" not in stored
    for name, key in (("hls", KEY), ("other", OTHER_KEY)):
        opened = Cipher(AES(key), CBC((1).to_bytes(16, "big"))).decryptor()
        assert opened.update((tmp_path / "out" / name / "90p_00002.m4s").read_bytes())[4:8] == b"styp"
    status = json.dumps(columns(row), default=str).encode()
    places = {"status": status, "logs": logs, **rows_of(store), **files_below(tmp_path)}
    assert find_leaks({"key": KEY.hex(), "other key": OTHER_KEY.hex()}, places) == []
    assert not [where for where, content in places.items() if KEY in content or OTHER_KEY in content]


@pytest.mark.parametrize("damage", [{"hls_key_dek_wrapped": bytes(60)}, {"hls_key_encrypted": None}])
def test_a_job_whose_key_cannot_be_opened_makes_nothing(
    store: Store, tools: Tools, clips: Clips, tmp_path: Path, damage: dict[str, Any]
) -> None:
    """A change in the database must not make a worker publish a film unencrypted or with another key."""
    row, logs = run(store, tools, clips, tmp_path, **damage)
    assert (row.status, (row.last_error or {})["code"]) == ("failed", "cannot_decrypt")
    assert [*(tmp_path / "out").iterdir()] == []
    assert b"encode" not in logs
