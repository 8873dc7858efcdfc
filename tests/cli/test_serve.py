"""What the serving commands do with signals."""

import subprocess
import sys

# Each time the signal lands somewhere else around the beginning of the wait.
TOLD_WHILE_IT_BEGINS_TO_WAIT = """
import os, signal, threading
from euterpe.cli.serve import _open_stop_pipe

go = threading.Semaphore(0)

def tell(rounds):
    for round in range(rounds):
        go.acquire()
        for _ in range(round % 200):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

teller = threading.Thread(target=tell, args=[5000])
teller.start()
for _ in range(5000):
    stop = _open_stop_pipe()
    go.release()
    assert os.read(stop, 1)[0] == signal.SIGTERM
    os.close(stop)
    os.close(signal.set_wakeup_fd(-1))
teller.join()
"""


def test_a_signal_at_any_moment_of_the_wait_ends_it() -> None:
    """With an Event the service slept on, once in some thousand starts that were told to stop at once."""
    command = [sys.executable, "-c", TOLD_WHILE_IT_BEGINS_TO_WAIT]
    assert subprocess.run(command, timeout=60, check=False).returncode == 0
