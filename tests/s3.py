"""A real S3 server on loopback: `rclone serve s3`, which checks every signature. Each folder is a bucket.

The server answers range requests with the status 200 instead of 206. The library obstore would refuse this
answer.
"""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from euterpe.domain.credentials import S3Credentials

ACCESS_KEY_ID = "AKIAEUTERPETESTS"
SECRET_ACCESS_KEY = "the-secret-of-the-tests"


class S3Server:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process = subprocess.Popen(
            [
                Path(sys.executable).with_name("rclone"),
                *("serve", "s3", "--addr", "127.0.0.1:0"),
                *("--auth-key", f"{ACCESS_KEY_ID},{SECRET_ACCESS_KEY}"),
                *("--config", "", "--dir-cache-time", "1ms"),
                folder,
            ],
            stderr=subprocess.PIPE,
            text=True,
            env={},
        )
        self.endpoint = self._await_listening()

    def _await_listening(self) -> str:
        log = self._process.stderr
        assert log is not None
        for line in log:
            if match := re.search(r"Starting s3 server on \[(http://127\.0\.0\.1:[0-9]+)/\]", line):
                self._drain = threading.Thread(target=log.read)
                self._drain.start()
                return match[1]
        raise RuntimeError("rclone ended before it listened")

    def bucket(self, name: str) -> Path:
        """Create a bucket if needed and return its folder, whose files are its objects."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return folder

    def document(self, **other: str) -> dict[str, str]:
        """Return valid credentials as a requester writes them. The fields in `other` replace the defaults."""
        return {
            "type": "s3",
            "access_key_id": ACCESS_KEY_ID,
            "secret_access_key": SECRET_ACCESS_KEY,
            "region": "us-east-1",
            "endpoint": self.endpoint,
            **other,
        }

    def credentials(self, **other: str) -> S3Credentials:
        return S3Credentials.model_validate(self.document(**other))

    def stop(self) -> None:
        self._process.kill()
        self._drain.join()
        self._process.communicate()


@contextmanager
def serving_s3(folder: Path) -> Iterator[S3Server]:
    server = S3Server(folder)
    try:
        yield server
    finally:
        server.stop()
