"""A program for a test that kills it: start a sandbox with a child, print the child's pid, and wait."""

import os
import signal
import sys
from pathlib import Path

from euterpe.media.sandbox.confine import ResourceLimits
from euterpe.media.sandbox.sandbox import Sandbox

with Sandbox(Path("/bin/true")) as sandbox:
    limits = ResourceLimits(memory_bytes=1 << 30, cpu_seconds=60)
    never, held = os.pipe()
    script = "echo ready; read word <&7"
    child = sandbox.run(["/bin/sh", "-c", script], fds={7: never}, cwd=Path(sys.argv[1]), limits=limits)
    for event in child.events(60.0):
        if event is not None:
            sys.stdout.write(f"{child.pid}\n")
            sys.stdout.flush()
            signal.pause()
