"""A program with OmniQ's real client, which runs in the environment with the package `omniq`.

It reads one command per line, as JSON, with the name and the keyword arguments of a method of the client.
"""

import json
import sys
from dataclasses import asdict, is_dataclass
from typing import Any

from omniq import OmniqClient, QueueMonitor


def main() -> None:
    client = OmniqClient(host="127.0.0.1", port=int(sys.argv[1]))
    monitor = QueueMonitor(client)
    for line in sys.stdin:
        command = json.loads(line)
        name = command.pop("call")
        try:
            found: Any = getattr(monitor if name == "get_job" else client, name)(**command)
        except Exception as error:  # noqa: BLE001  the test sees it
            said: dict[str, Any] = {"error": f"{type(error).__name__}: {error}"}
        else:
            shown = asdict(found) if is_dataclass(found) and not isinstance(found, type) else found
            said = {"answer": shown}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


main()
