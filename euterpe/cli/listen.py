"""`euterpe listen`: a webhook receiver on this machine. It verifies events and prints them."""

import json
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from typing import Annotated, Any

import typer

from euterpe.cli.commands import command
from euterpe.cli.local_server import LocalServer
from euterpe.cli.output import note, out
from euterpe.client import Event, MemoryDedupe, MemoryNonces, SignatureError, verify

_MOST_BYTES = 1024 * 1024
_SLOWEST_S = 10.0

Port = Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 means any free port.")]
Secrets = Annotated[
    list[str] | None,
    typer.Option(envvar="EUTERPE_WEBHOOK_SECRET", metavar="SECRET", help="A webhook secret; repeatable."),
]
AsLines = Annotated[bool, typer.Option("--json", help="Print one JSON line per event.")]


def register(app: typer.Typer) -> None:
    command(app, "listen", example="euterpe listen --port 9000 --secret whsec_…")(listen)


def listen(port: Port = 9000, secret: Secrets = None, as_json: AsLines = False) -> None:
    """Receive webhooks on this machine until interrupted. Without a secret nothing is verified."""
    try:
        server = WebhookServer(port, WebhookListener(secret or (), as_json))
    except OSError as error:
        raise typer.BadParameter(f"{port}: {error.strerror}", param_hint="--port") from None
    doubt = "" if secret else "; without --secret nothing is verified"
    with server:
        server.serve_until_interrupted(
            lambda: (note if as_json else out)(f"listening on {server.address}{doubt}")
        )


class WebhookListener:
    """The receiver: it verifies, deduplicates and prints deliveries."""

    def __init__(self, secrets: Sequence[str], as_json: bool) -> None:
        self._secrets, self._as_json = secrets, as_json
        self._nonces, self._dedupe = MemoryNonces(), MemoryDedupe()

    def take(self, headers: Mapping[str, str], body: bytes) -> int:
        """Print the event of a delivery, and return the status code of the response."""
        try:
            if self._secrets:
                event = verify(headers, body, self._secrets, replay_cache=self._nonces)
            else:
                event = Event.read(json.loads(body))
        except SignatureError as refusal:
            note(f"refused: {refusal}")
            return 503 if refusal.retryable else 401
        except (ValueError, RecursionError):
            note("refused: the body is not an event")
            return 400
        if self._dedupe.first_time(event.event_id):
            self._show(event)
        else:
            note(f"{event.event_id} came again")
        return 204

    def _show(self, event: Event) -> None:
        if self._as_json:
            typer.echo(json.dumps(event.document))
            return
        error = event.error or {}
        why = f"  {error.get('code')}: {error.get('message')}" if event.error else ""
        out(f"{event.occurred_at}  {event.job_id}  {event.sequence}  {event.type}{why}")


class WebhookServer(LocalServer):
    daemon_threads = False  # requests under way are finished before the program exits

    def __init__(self, port: int, receiver: WebhookListener) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.receiver = receiver


class _Handler(BaseHTTPRequestHandler):
    server: WebhookServer
    timeout = _SLOWEST_S

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()):
            self._answer(411)
        elif len(length) > 9 or int(length) > _MOST_BYTES:
            self._answer(413)
        else:
            self._answer(self.server.receiver.take(dict(self.headers), self.rfile.read(int(length))))

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name in the base class
        """Do nothing. The method of the base class would print a line for each request to stderr."""
