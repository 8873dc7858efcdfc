"""Compare a remote worker with a local worker, on whole jobs for clips of one second from S3 to S3."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

from ci.queue_bench import Databases
from ci.service_bench import installed
from ci.workers_parts.sizes import Sizes
from euterpe.bench.figures import Figure
from euterpe.bench.transcode import BenchFolder, transcode_bench
from euterpe.domain.scopes import Scope
from tests.s3 import serving_s3

_LONGEST_TURN_S = 120.0  # the time limit of one run; 100 clips took 21 s on two cores


def measure_clips(databases: Databases, sizes: Sizes) -> list[Figure]:
    slots = os.cpu_count() or 1
    with ExitStack() as ended:
        server = ended.enter_context(serving_s3(Path(ended.enter_context(tempfile.TemporaryDirectory()))))
        installation = ended.enter_context(installed(ended.enter_context(databases.postgres())))
        environ = {"EUTERPE_STORAGE_ENDPOINTS": server.endpoint}
        place = BenchFolder(server.bucket("media"), "s3://media/", environ, server.document())
        bench = ended.enter_context(transcode_bench(installation, place))
        with installation.open() as store:
            key = store.requesters.create("bench-worker", [Scope.WORKER]).api_key
        # The API also runs while the local worker is measured, so that both workers have equal conditions.
        api = ended.enter_context(installation.running("api", "--port", "0"))
        remote = {"EUTERPE_SERVER": api.address(), "EUTERPE_API_KEY": key}
        seconds = {"local": 0.0, "remote": 0.0}
        # In this order, a machine that becomes slower over time affects both workers equally.
        for kind in ("local", "remote", "remote", "local"):
            more = remote if kind == "remote" else {}
            seconds[kind] += sizes.clips / bench.run_many(sizes.clips, slots, most_s=_LONGEST_TURN_S, **more)
    rates = {kind: 2 * sizes.clips / took for kind, took in seconds.items()}
    name = f"{2 * sizes.clips} clips of one second, remote compared with local"
    return [Figure(name, "jobs/s", rates["remote"], rates["local"], at_least=0.95)]
