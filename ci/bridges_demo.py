"""Demonstrate the bridges: producers of BullMQ, OmniQ and the job gateway run unchanged against Euterpe.

A Redis server, a worker, the gateway and one bridge for each foreign queue run as processes. Then each
producer of ci/bridges_examples runs, with the real client of its system.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from euterpe.cli.demo.clip import SECONDS, make_clip
from euterpe.cli.output import out
from euterpe.crypto import keyfile
from euterpe.settings import load
from euterpe.store.engine.migrations import migrate
from euterpe.wiring.database import open_database, open_store
from tests.bridges.bridge_process import REPOSITORY, python_of
from tests.node import node_command, node_env
from tests.redis_server import RedisServer
from tests.service.installation import Program

_EXAMPLES = Path(__file__).with_name("bridges_examples")
_JOB_S = 180.0
_BRIDGES = """
[bridge.bullmq]
kind = "bullmq"
url_env = "DEMO_REDIS"
queue = "video-jobs"
requester = "demo"
[bridge.bullmq.jobs.transcode]
source = "{data.source}"
output = "file://FOLDER/media/bullmq/{id}/"
profile = "h264-480p"

[bridge.omniq]
kind = "omniq"
url_env = "DEMO_REDIS"
queue = "clips"
requester = "demo"
[bridge.omniq.jobs.transcode]
source = "{data.source}"
output = "file://FOLDER/media/omniq/{id}/"
profile = "h264-480p"

[bridge.streams]
kind = "streams"
url_env = "DEMO_REDIS"
stream = "jobs:stream"
requester = "demo"
[bridge.streams.jobs.tool]
when = {tool = "transcode"}
source = "{data.source}"
output = "file://FOLDER/media/gateway/{id}/"
profile = "h264-480p"
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="ci/demo --bridges", description=__doc__)
    parser.add_argument("--dir", type=Path, help="an empty folder; by default a new folder here")
    folder = _empty_folder(parser, parser.parse_args().dir)
    for name in ("media", "work", "redis"):
        (folder / name).mkdir()
    clip = make_clip(folder / "media")
    out(f"clip       {clip}, {SECONDS} s of 1280×720")
    with ExitStack() as opened:
        redis = opened.enter_context(RedisServer(folder / "redis"))
        out(f"redis      {redis.url}")
        environ = _installation(folder, redis.url)
        _start(opened, ("worker",), environ, folder)
        gateway = _start(opened, ("gateway", "--redis", redis.url, "--port", "0"), environ, folder).address()
        for kind in ("bullmq", "omniq", "streams"):
            bridge = _start(opened, ("bridge", "run", "--name", kind), environ, folder, python_of(kind))
            bridge.await_log('"bridge_started"')
        source = clip.as_uri()
        bullmq = node_command(_EXAMPLES / "bullmq_producer.js", redis.url, source)
        _run("BullMQ in Node", bullmq, node_env())
        omniq = [python_of("omniq"), str(_EXAMPLES / "omniq_producer.py"), str(redis.port), source]
        _run("OmniQ in Python", omniq, dict(os.environ))
        _run("curl", [str(_EXAMPLES / "gateway_client.sh"), gateway, source], dict(os.environ))
        _show_jobs(environ)
    out(f"everything is in {folder}: the database, the clip and the outputs")


def _empty_folder(parser: argparse.ArgumentParser, folder: Path | None) -> Path:
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="euterpe-demo-", dir=Path.cwd()))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        parser.error(f"{folder} is not empty")
    return folder.resolve()


def _installation(folder: Path, redis_url: str) -> dict[str, str]:
    """Create the database, the KEK file and the file of the bridges. Return the programs' environment."""
    (folder / "bridges.toml").write_text(_BRIDGES.replace("FOLDER", str(folder)))
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(REPOSITORY),
        "DEMO_REDIS": redis_url,
        "EUTERPE_BRIDGES": str(folder / "bridges.toml"),
        "EUTERPE_DATABASE_URL": f"sqlite:///{folder / 'euterpe.db'}",
        "EUTERPE_KEK_FILE": str(folder / "keks.json"),
        "EUTERPE_STORAGE_ROOTS": str(folder / "media"),
        "EUTERPE_WORK_DIR": str(folder / "work"),
        "EUTERPE_REQUIRE_SANDBOX": "false",  # the jobs read only the demo's own clip
    }
    keyfile.create_file(folder / "keks.json")
    settings = load(database_url=environ["EUTERPE_DATABASE_URL"], kek_file=folder / "keks.json", keks=None)
    database = open_database(settings)
    migrate(database)
    database.close()
    with open_store(settings) as store:
        store.requesters.create("demo")
    return environ


def _start(
    opened: ExitStack,
    arguments: tuple[str, ...],
    environ: dict[str, str],
    folder: Path,
    python: str = sys.executable,
) -> Program:
    program = opened.enter_context(_running(Program(arguments, environ, folder, python=python)))
    out(f"process    {program.pid}: euterpe {' '.join(arguments)}")
    return program


@contextmanager
def _running(program: Program) -> Iterator[Program]:
    try:
        yield program
    finally:
        program.stop()


def _run(name: str, command: Sequence[str], environ: dict[str, str]) -> None:
    """Run a producer until it exits, and print its output."""
    script = next(part for part in command if Path(part).parent == _EXAMPLES)
    out(f"producer   {name}: {Path(script).name}")
    ended = subprocess.run(
        command, env=environ, timeout=_JOB_S, check=True, stdout=subprocess.PIPE, text=True
    )
    for line in ended.stdout.splitlines():
        out(f"  {line}")


def _show_jobs(environ: dict[str, str]) -> None:
    settings = load(database_url=environ["EUTERPE_DATABASE_URL"], kek_file=Path(environ["EUTERPE_KEK_FILE"]))
    with open_store(settings) as store:
        for row in store.jobs.page():
            job = store.jobs.get(row.job_id)
            out(f"job        {job.job_id} of {job.source_ref}: {job.status}, {job.attempt_count} attempt")


if __name__ == "__main__":
    main()
