"""A program that copies an object from a bucket into a file and back, and prints how much its memory grew."""

import json
import resource
import sys
from pathlib import Path

from euterpe.domain.credentials import S3Credentials
from euterpe.net.egress import Egress
from euterpe.net.policy import EgressPolicy
from euterpe.storage.policy import StoragePolicy
from euterpe.storage.source_file import SourceFile
from euterpe.storage.storage import Storage
from tests.storage.storage_calls import NO_LIMIT, Upload, destination, source


def main(document: dict[str, str], bucket: str, folder: Path) -> None:
    keys = S3Credentials.model_validate(document)
    with Egress(EgressPolicy()) as egress:
        storage = Storage(StoragePolicy(endpoints=(document["endpoint"],)), egress)
        origin = source(storage, f"s3://{bucket}/a.mov", keys)
        expect, before = origin.stat(), peak_memory_bytes()
        with (folder / "a.mov").open("wb") as file:
            into = SourceFile(file.fileno(), expect)
            origin.fetch(into, max_bytes=NO_LIMIT, on_chunk=lambda _: None)
        stored = Upload().put(destination(storage, f"s3://{bucket}/back/", keys), "a.mov", folder / "a.mov")
        json.dump({"size": stored.size_bytes, "grown": peak_memory_bytes() - before}, sys.stdout)


def peak_memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
