"""plaintext-nowhere: jobs leave no secret in files, processes, tables or the logs, even at level DEBUG."""

import json
import os
import resource
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

import httpx
import pytest

from euterpe.client import Client, Job
from euterpe.store.engine.engines import sqlite_file
from tests.net.servers import Authority, Server
from tests.s3 import SECRET_ACCESS_KEY
from tests.service.canaries import core_limits_of, files_below, find_leaks, mint, processes_in, rows_of
from tests.service.installation import Installation
from tests.service.process_table import descendants
from tests.service.receiver import credentials_answer
from tests.storage.fake_stores import Call, MemoryStore, Reply, http_handler

_NAMES = ("wrong key", "token", "fresh token", "malformed answer", "later key", "signature", "misplaced")
_SETTINGS = {
    "EUTERPE_LOG_LEVEL": "debug",
    "EUTERPE_HEARTBEAT_INTERVAL_MS": "400",
    "EUTERPE_REFRESH_MAX_ATTEMPTS": "1",
}
_JSON = {"content-type": "application/json"}
_AUDIO = {"profile": "audio-aac", "max_attempts": 1}

pytestmark = pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def large_cores() -> Iterator[None]:
    """Allow core dumps, as some operators do."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, before)


class SignedUrlStore(MemoryStore):
    """An object store for signed URLs that quotes the URL when it refuses a request."""

    def __call__(self, call: Call) -> Reply:
        if call.path.startswith("/refused"):
            quoting = f"<Error><Code>AccessDenied</Code><Resource>{call.target}</Resource></Error>"
            return Reply(403, {"location": call.target}, quoting.encode())
        return super().__call__(call)


@pytest.fixture
def store_url(tmp_path: Path, clip: Path, installation: Installation) -> Iterator[str]:
    """Yield the URL of a store that the installation may call and whose certificate it trusts."""
    authority = Authority(tmp_path)
    (certificate,) = authority.client_context().get_ca_certs(binary_form=True)
    (tmp_path / "ca.pem").write_text(ssl.DER_cert_to_PEM_cert(certificate))
    store = SignedUrlStore(**{"clip.mp4": clip.read_bytes()})
    with Server(http_handler(store), authority.server_context(["localhost"])) as server:
        installation.environ["SSL_CERT_FILE"] = str(tmp_path / "ca.pem")
        installation.environ["EUTERPE_EGRESS_ALLOW"] += f",localhost:{server.port}"
        yield f"https://localhost:{server.port}"


@pytest.mark.usefixtures("large_cores", "media")
def test_no_secret_is_found_where_the_planted_value_is(installation: Installation, store_url: str) -> None:
    """The value `planted` is put into every place that can leak, to prove that the search works there."""
    secrets, planted = _secrets_of(installation), mint("planted")
    places: dict[str, bytes] = {}
    program = installation.start("serve", "--port", "0", **_SETTINGS)
    url = program.address()
    with Client(url, installation.api_key) as client, _careless_leaks(installation, planted):
        encoding = _encode(installation, client, secrets["token"], planted)
        _stop_ffmpeg(program.pid)  # the job must not succeed before it is canceled
        places |= processes_in(installation.folder) | files_below(installation.work)
        places |= {f"{where}, early": content for where, content in _database_of(installation).items()}
        assert core_limits_of([program.pid, *descendants(program.pid)]) <= {"0", "1"}
        client.cancel(encoding)
        jobs = [
            client.wait(encoding, timeout=60),
            *_use_keys(installation, client, secrets, planted),
            *_use_signatures(installation, client, secrets, store_url),
        ]
        places |= _answers(url, installation.api_key, [job.job_id for job in jobs], secrets, planted)
        places |= {f"{where}, late": content for where, content in _database_of(installation).items()}
    assert program.stop() == 0
    places |= _database_of(installation)
    places["log"] = "".join([*program.log, program.stdout_rest]).encode()
    places |= {f"webhook {name}": b"".join(bodies) for name, bodies in installation.receiver.bodies.items()}
    places |= {
        f"shown {job.job_id}": installation.run("jobs", "show", job.job_id).encode() for job in jobs[:2]
    }
    assert [(job.status, job.error and job.error["code"]) for job in jobs] == [
        ("failed", "canceled"),
        ("succeeded", None),
        ("succeeded", None),
        ("dead_letter", "source_forbidden"),
        ("succeeded", None),
        ("succeeded", None),
        ("dead_letter", "source_forbidden"),
        ("dead_letter", "egress_refused"),
    ]
    _check_search(places, planted)
    assert find_leaks(secrets, places) == []
    raw_key = bytes.fromhex(secrets["HLS key"])
    assert [where for where, content in places.items() if raw_key in content] == []


def _secrets_of(installation: Installation) -> dict[str, str]:
    (kek,) = json.loads((installation.folder / "keks.json").read_text())["keys"].values()
    return {
        "API key": installation.api_key.rpartition("_")[2],
        "callback token": installation.receiver.token,
        "webhook secret": installation.receiver.secrets[0].removeprefix("whsec_"),
        "KEK": kek,
        "S3 key": SECRET_ACCESS_KEY,
        "HLS key": token_hex(16),
        **{name: mint(name.replace(" ", "")) for name in _NAMES},
    }


@contextmanager
def _careless_leaks(installation: Installation, planted: str) -> Iterator[None]:
    """Put the planted value into a process and into a file, as a worker with leaks would."""
    (installation.work / "careless").write_text(planted)
    code = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, planted],
        env={"CARELESS": planted},
        cwd=installation.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as careless:
        assert careless.stdout is not None
        careless.stdout.readline()
        yield
    (installation.work / "careless").unlink()


def _encode(installation: Installation, client: Client, token: str, planted: str) -> str:
    """Submit a job, and return its id once ffmpeg encodes."""
    encoding = installation.receiver.signal_when(
        lambda event: (event.type, event.status) == ("job.progress", "processing")
    )
    keys = installation.s3.document(session_token=token)
    events = ["progress", "processing", "failed"]
    fields = {"webhook_events": events, "metadata": {"note": planted}, "credentials": keys}
    job = client.submit(installation.request("long.mp4", **fields))
    assert encoding.wait(60)
    return job.job_id


def _stop_ffmpeg(worker: int) -> None:
    running = [pid for pid in descendants(worker) if b"ffmpeg" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert running
    for pid in running:
        os.kill(pid, signal.SIGSTOP)


def _use_keys(
    installation: Installation, client: Client, secrets: Mapping[str, str], planted: str
) -> Iterator[Job]:
    """Run jobs with right keys, an HLS key, wrong keys, and wrong keys that are then replaced."""
    right = installation.s3.document(session_token=secrets["token"])
    wrong = installation.s3.document(secret_access_key=secrets["wrong key"])
    encrypted = [_encrypted(secrets["HLS key"])]
    yield _run_job(
        client, installation.request("clip.mp4", profile=None, outputs=encrypted, credentials=right)
    )
    yield _run_job(client, installation.request("clip.mp4", **_AUDIO, credentials=right))

    def malformed(_: object) -> tuple[int, bytes]:
        return credentials_answer({"type": "s3", "secret_access_key": secrets["malformed answer"]})

    installation.receiver.refresh = malformed
    refreshing = installation.request(
        "clip.mp4", **_AUDIO, credentials=wrong, refresh_url=installation.receiver.refresh_url
    )
    yield _run_job(client, refreshing)
    fresh = installation.s3.document(session_token=secrets["fresh token"])
    installation.receiver.refresh = lambda _: credentials_answer(fresh)
    yield _run_job(client, refreshing)
    waiting = client.submit({**refreshing, "queue": planted})
    client.replace_credentials(
        waiting.job_id, installation.s3.document(secret_access_key=secrets["later key"])
    )


def _encrypted(key: str) -> dict[str, Any]:
    encryption = {"method": "aes-128", "key_url": "https://keys.example/1", "key": key}
    return {"name": "hls", "type": "hls", "video": {"ladder": [90]}, "encryption": encryption}


def _use_signatures(
    installation: Installation, client: Client, secrets: Mapping[str, str], store_url: str
) -> Iterator[Job]:
    """Run jobs with signed URLs: one is accepted by the store, one is refused, and one has a refused host."""
    query = f"?X-Amz-Signature={secrets['signature']}"
    hook = {"status_webhook_url": installation.receiver.hook_url}
    for source in (f"{store_url}/clip.mp4", f"{store_url}/refused.mp4", "https://localhost:9/clip.mp4"):
        urls = {"audio.m4a": f"{store_url}/audio.m4a{query}"}
        job = {"source": {"url": source + query}, "output": {"urls": urls}, **_AUDIO, **hook}
        yield _run_job(client, job)


def _run_job(client: Client, request: Mapping[str, object]) -> Job:
    return client.wait(client.submit(request).job_id, timeout=60)


def _answers(
    url: str, api_key: str, job_ids: list[str], secrets: Mapping[str, str], planted: str
) -> dict[str, bytes]:
    """Return the API's answers: about jobs, about the service, and to requests with misplaced secrets."""
    misplaced, key = secrets["misplaced"], secrets["HLS key"]
    places = {"source": {"url": "s3://in/a.mov"}, "output": {"url": "s3://out/a/"}}
    wrong_keys = [{**places, "outputs": [_encrypted(wrong)]} for wrong in (f"{key}0", f"{misplaced}g")]
    keys = {"type": "s3", "secret_access_key": misplaced, "secret": misplaced}
    calls: list[tuple[str, str, dict[str, Any]]] = [
        *(("GET", f"/transcode/status?job_id={job_id}", {}) for job_id in job_ids),
        *(("GET", f"/transcode/{job_id}/events", {}) for job_id in job_ids),
        *(("GET", path, {}) for path in ("/transcode/jobs", "/metrics", "/readyz")),
        *(
            ("GET", f"{path}?token={misplaced}", {})
            for path in ("/nowhere", f"/transcode/{misplaced}/events")
        ),
        ("GET", f"/transcode/status?job_id={misplaced}", {}),
        ("GET", "/transcode/jobs", {"headers": {"authorization": f"Bearer eut_0_{misplaced}"}}),
        ("POST", "/transcode", {"json": {"source": {"url": f"s3://{misplaced}@a/b"}, "credentials": keys}}),
        ("POST", "/transcode", {"json": keys}),
        *(("POST", "/transcode", {"json": wrong}) for wrong in wrong_keys),
        ("POST", "/transcode", {"json": {**places, "outputs": [{**_encrypted(key), "type": "dash"}]}}),
        ("POST", "/transcode?dry_run=true", {"json": {**places, "outputs": [_encrypted(key)]}}),
        ("POST", "/transcode", {"content": json.dumps(keys)[:-1], "headers": _JSON}),
        ("PUT", f"/transcode/{job_ids[0]}/credentials", {"json": {"credentials": keys}}),
    ]
    headers = {"authorization": f"Bearer {api_key}", "x-request-id": planted}
    with httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as http:
        answers = [http.request(method, path, **options) for method, path, options in calls]
    return {
        f"answer {n} {answer.status_code} {answer.url.path}": repr(answer.headers).encode() + answer.content
        for n, answer in enumerate(answers)
    }


def _database_of(installation: Installation) -> dict[str, bytes]:
    """Return all columns. On SQLite, also return the files, which include the bytes between the rows."""
    with installation.store() as store:
        rows = rows_of(store)
    path = sqlite_file(installation.environ["EUTERPE_DATABASE_URL"])
    return rows | (files_below(path.parent, f"{path.name}*") if path else {})


def _check_search(places: Mapping[str, bytes], planted: str) -> None:
    """Check that the search finds the planted value in every kind of place."""
    found = {where for _, where in find_leaks({"planted": planted}, places)}
    kinds = {where.split()[0] for where in places}
    assert kinds == {"log", "cmdline", "environ", "file", "column", "webhook", "answer", "shown"}
    assert {where.split()[0] for where in found} == kinds
    assert {where for where in places if where.startswith("answer")} <= found
    assert {"column inbox_jobs.spec", "column job_outbox_events.payload", "file careless"} <= found
    running = b"\n".join(content for where, content in places.items() if where.startswith("cmdline"))
    assert b"euterpe.media.sandbox.fork_server" in running
    assert b"libx264" in running
