"""A program for tests that kill it.

The program writes an output, prints `sent`, and never publishes the output.
"""

import signal
import sys
from pathlib import Path

from euterpe.net.egress import Egress
from euterpe.net.policy import EgressPolicy
from euterpe.storage.policy import StoragePolicy
from euterpe.storage.storage import Storage
from tests.storage.storage_calls import destination


def wait_to_be_killed() -> None:
    sys.stdout.write("sent\n")
    sys.stdout.flush()
    signal.pause()


root, made = Path(sys.argv[1]), Path(sys.argv[2])
with Egress(EgressPolicy()) as egress:
    to = destination(Storage(StoragePolicy(roots=(root,)), egress), f"file://{root}/out/")
    to.put(
        "mp4.mp4",
        made,
        content_type="video/mp4",
        before_publish=wait_to_be_killed,
        on_chunk=lambda _: None,
    )
