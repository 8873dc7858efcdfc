"""The commands that serve, and their end at SIGTERM."""

import subprocess
import sys

# In each round, the signal arrives at a different moment, shortly before or after the start of the wait.
SIGNALS_AROUND_THE_START_OF_THE_WAIT = """
import os, signal, threading
from euterpe.cli.serve import _open_stop_pipe

go = threading.Semaphore(0)

def send_signals(rounds):
    for round in range(rounds):
        go.acquire()
        for _ in range(round % 200):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

sender = threading.Thread(target=send_signals, args=[5000])
sender.start()
for _ in range(5000):
    stop = _open_stop_pipe()
    go.release()
    assert os.read(stop, 1)[0] == signal.SIGTERM
    os.close(stop)
    os.close(signal.set_wakeup_fd(-1))
sender.join()
"""


def test_a_signal_at_any_moment_of_the_wait_ends_it() -> None:
    """With `threading.Event`, one in several thousand signals at the start of the wait was ignored."""
    command = [sys.executable, "-c", SIGNALS_AROUND_THE_START_OF_THE_WAIT]
    assert subprocess.run(command, timeout=60, check=False).returncode == 0
