"""A program with two children.

The first child starts as many threads as possible. Then the second child starts 20 threads.
`python -m tests.media.thread_exhaustion` prints the number of threads that each child could start. A user
other than root must run the program, because the kernel does not limit the threads of root.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

from euterpe.media.sandbox.child import Child
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.children import LIMITS, first_output

_THREADS = """
import _thread, sys, time
_thread.stack_size(64 << 10)
started = 0
try:
    while started < int(sys.argv[1]):
        _thread.start_new_thread(time.sleep, (600,))
        started += 1
except RuntimeError:
    pass
print(started, flush=True)
time.sleep(600)
"""


def start_threads(sandbox: Sandbox, threads: int) -> Child:
    argv = [os.path.realpath(sys.executable), "-ISc", _THREADS, str(threads)]
    return sandbox.run(argv, fds={}, cwd=Path(tempfile.gettempdir()), limits=LIMITS)


def main() -> None:
    with Sandbox(Path("/bin/true")) as sandbox, start_threads(sandbox, 5000) as first:
        most_threads = int(first_output(first))
        with start_threads(sandbox, 20) as second:
            sys.stdout.write(json.dumps([most_threads, int(first_output(second))]))


if __name__ == "__main__":
    main()
