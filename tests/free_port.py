"""Free ports for servers that cannot choose a port themselves."""

import random
import socket

# Below the ports that the kernel gives to connections (32,768 to 60,999). Otherwise, a connection could take
# the port before the server listens on it.
_FIRST, _LAST = 10_000, 32_000
# Not seeded: other test processes, and tests with a fixed seed, must not get the same ports.
_random = random.SystemRandom()


def free_port() -> int:
    """Return a port of the loopback address on which nobody listens now."""
    for _ in range(100):
        port = _random.randint(_FIRST, _LAST)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise AssertionError("no free port was found")
