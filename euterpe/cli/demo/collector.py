"""A receiver that verifies the webhooks of the demo's job, and keeps its events."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from euterpe.cli.listen import WebhookListener, WebhookServer
from euterpe.client import Event
from euterpe.domain.errors import EuterpeError

_TIMEOUT_S = 60.0


class DemoFailed(EuterpeError):
    code = "demo_failed"


class Collector(WebhookListener):
    """A receiver that verifies webhooks like `euterpe listen`, and keeps the events."""

    def __init__(self, on_event: Callable[[Event], None]) -> None:
        super().__init__((), as_json=False)
        self.address = ""
        self._on_event = on_event
        self.events: list[Event] = []
        self._is_over = threading.Event()

    def trust(self, secret: str) -> None:
        self._secrets = (secret,)

    def await_end(self) -> list[Event]:
        if not self._is_over.wait(_TIMEOUT_S):
            raise DemoFailed("the last webhook did not come; the folder has the service's log")
        return sorted(self.events, key=lambda event: event.sequence)

    def _show(self, event: Event) -> None:
        self.events.append(event)
        self._on_event(event)
        if event.type in ("job.succeeded", "job.failed"):
            self._is_over.set()


@contextmanager
def collecting(on_event: Callable[[Event], None] = lambda _: None) -> Iterator[Collector]:
    """Yield a collector that receives webhooks on loopback, and calls `on_event` with each new event."""
    collector = Collector(on_event)
    with WebhookServer(0, collector) as server:
        collector.address = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
