"""`euterpe bench api`: HTTP requests per second, compared with bare handlers on the same database."""

import http.client
import json
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from euterpe.bench.bare_api import bare_api
from euterpe.bench.figures import BenchFailed, Figure
from euterpe.bench.load import Load, drive
from euterpe.bench.programs import Installation
from euterpe.store.secrets.requesters import NewRequester

_ROWS = 200  # the read benchmark requests these rows in turn
# No run reaches this quota, but it makes the API count the unfinished jobs, as in production.
_NO_QUOTA = "10000000"
_PLACEHOLDER = "\0"  # stands for the part that differs in each request


def measure_api(installation: Installation, *, seconds: float) -> Sequence[Figure]:
    """Return requests per second for POST and GET, the load generator's CPU use and the API's memory."""
    unlimited = {"EUTERPE_MAX_UNFINISHED": _NO_QUOTA, "EUTERPE_MAX_UNFINISHED_OF_ALL": _NO_QUOTA}
    with (
        installation.requester() as requester,
        bare_api(installation.settings) as bare,
        installation.running("api", "--port", "0", **unlimited) as api,
    ):
        ours, theirs = _Target(api.address(), requester), _Target(bare)
        body = _job(requester)
        bare_posts = drive(theirs.post_load("/", body, seconds))
        posts = drive(ours.post_load("/transcode", body, seconds))
        bare_reads = drive(theirs.get_load("/?id=", theirs.create_rows("/", body, "id"), seconds))
        jobs = ours.create_rows("/transcode", body, "job_id")
        reads = drive(ours.get_load("/transcode/status?job_id=", jobs, seconds))
        shares = (bare_posts.share, posts.share, bare_reads.share, reads.share)
        return [
            Figure("POST /transcode", "requests/s", posts.per_second, bare_posts.per_second, at_least=0.5),
            Figure(
                "GET /transcode/status", "requests/s", reads.per_second, bare_reads.per_second, at_least=0.6
            ),
            Figure("load generator", "% of a core", 100 * max(shares), at_most=80),
            Figure("memory of the API", "MiB", api.peak_mib(), at_most=150),
        ]


def _job(requester: NewRequester) -> bytes:
    return json.dumps(
        {
            "source": {"url": "s3://in/a.mov"},
            "output": {"url": "s3://out/a/"},
            "profile": "h264-720p",
            "credentials": {
                "type": "s3",
                "access_key_id": "AKIAIOSFODNN7EXAMPLE",
                "secret_access_key": "x" * 40,
                "session_token": "x" * 200,
                "region": "eu-central-1",
            },
            "status_webhook_url": "https://requester.example/hook",
            "queue": f"bench-{requester.requester_id[-12:]}",  # no worker serves this queue
            "external_id": "asset-42",
            "metadata": {"title": "bench"},
        }
    ).encode()


class _Target:
    def __init__(self, url: str, requester: NewRequester | None = None) -> None:
        parts = urlsplit(url)
        self._netloc = parts.netloc
        self._address = str(parts.hostname), int(parts.port or 80)
        self._key = {} if requester is None else {"authorization": f"Bearer {requester.api_key}"}

    def post_load(self, path: str, body: bytes, seconds: float) -> Load:
        """Return a load of POST requests, each with a new idempotency key. Bare handlers ignore the key."""
        return Load(
            self._address, *self._request("POST", path, {"idempotency-key": _PLACEHOLDER}, body), 202, seconds
        )

    def get_load(self, path: str, words: tuple[str, ...], seconds: float) -> Load:
        return Load(self._address, *self._request("GET", f"{path}{_PLACEHOLDER}", {}), 200, seconds, words)

    def create_rows(self, path: str, body: bytes, name: str) -> tuple[str, ...]:
        """Create `_ROWS` rows and return their ids, read from the field `name` of each response."""
        connection = http.client.HTTPConnection(self._netloc, timeout=30)
        found = []
        for _ in range(_ROWS):
            connection.request("POST", path, body, {**self._key, "content-type": "application/json"})
            answer = connection.getresponse()
            document = json.load(answer)
            if answer.status != 202:
                raise BenchFailed(f"POST {path} was answered with {answer.status}: {document}")
            found.append(document[name])
        connection.close()
        return tuple(found)

    def _request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> tuple[bytes, bytes]:
        """Return two parts of a request: the bytes before the placeholder and the bytes after it."""
        sized = {"content-type": "application/json", "content-length": str(len(body))} if body else {}
        lines = {"host": self._netloc, **self._key, **sized, **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        before, _, after = f"{method} {path} HTTP/1.1\r\n{head}\r\n".partition(_PLACEHOLDER)
        return before.encode(), after.encode() + body
