"""Two children of one worker: the first takes all the threads that it gets, then the second wants a few.

`python -m tests.media.thread_exhaustion` prints how many each got. The kernel limits no threads of root.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

from euterpe.media.child import Child
from euterpe.media.sandbox import Sandbox
from tests.media.children import LIMITS, first_words

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


def crowd(sandbox: Sandbox, threads: int) -> Child:
    argv = [os.path.realpath(sys.executable), "-ISc", _THREADS, str(threads)]
    return sandbox.run(argv, fds={}, cwd=Path(tempfile.gettempdir()), limits=LIMITS)


def main() -> None:
    with Sandbox(Path("/bin/true")) as sandbox, crowd(sandbox, 5000) as greedy:
        most = int(first_words(greedy))
        with crowd(sandbox, 20) as modest:
            sys.stdout.write(json.dumps([most, int(first_words(modest))]))


if __name__ == "__main__":
    main()
