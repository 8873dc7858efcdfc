"""Run a Spark cluster (a master and workers) or a Spark Connect server on loopback."""

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from sysconfig import get_path
from types import TracebackType

import pyspark

from tests.service.process_table import ProcessWatch, at_home_in, descendants
from tests.short_spark import INTERPRETED, JAVA_OPTIONS

HOME = Path(pyspark.__file__).parent
WORKERS = ("w1", "w2")


class ClusterFolder:
    """The folder for everything that Spark's processes write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("conf", "scratch"):
            (folder / name).mkdir()
        # An operator would choose the same settings for such a small cluster.
        settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", **INTERPRETED}
        lines = (f"{name} {value}\n" for name, value in settings.items())
        (folder / "conf" / "spark-defaults.conf").write_text("".join(lines))
        self.python = self._python_without_euterpe()

    def _python_without_euterpe(self) -> Path:
        """Return a Python that has all packages of this environment except Euterpe.

        Euterpe is an editable install, which only the `site` module finds. `-S` turns this module off.
        """
        path = self.folder / "python"
        packages = shlex.quote(get_path("purelib"))
        path.write_text(
            f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:"{packages} exec {shlex.quote(sys.executable)} -S "$@"\n'
        )
        path.chmod(0o755)
        return path

    @property
    def environ(self) -> dict[str, str]:
        scratch = str(self.folder / "scratch")
        return {
            **os.environ,
            "SPARK_HOME": str(HOME),
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_LOCAL_DIRS": scratch,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "JDK_JAVA_OPTIONS": f"-Djava.io.tmpdir={scratch} {JAVA_OPTIONS}",
            "PYSPARK_PYTHON": str(self.python),
        }

    def close(self) -> None:
        """Wait until the last process has ended, and check that no process left files."""
        processes = ProcessWatch()
        processes.watch(at_home_in(self.folder))
        try:
            processes.await_the_end()
        finally:
            processes.close()
            for pid in at_home_in(self.folder):
                os.kill(pid, signal.SIGKILL)
        assert list((self.folder / "scratch").iterdir()) == []


class Daemon:
    """A process in its own process group. `stop` ends the whole group.

    The constructor waits until the process prints a line that matches `ready`.
    """

    def __init__(
        self, cluster_folder: ClusterFolder, command: Sequence[str], environ: Mapping[str, str], *, ready: str
    ) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=cluster_folder.folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._drain = threading.Thread(target=self._read_on)
        try:
            self.ready = self._await(ready)
        except BaseException:
            self._drain.start()
            self.stop()
            raise
        self._drain.start()

    def _await(self, ready: str) -> re.Match[str]:
        lines = []
        assert self._process.stdout is not None
        for line in self._process.stdout:
            lines.append(line)
            if found := re.search(ready, line):
                return found
        raise RuntimeError("".join(["the process ended before it was ready\n", *lines]))

    def _read_on(self) -> None:
        assert self._process.stdout is not None
        for _ in self._process.stdout:
            pass

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        processes = ProcessWatch()
        # The Python workers have their own process groups, and end when Java closes their sockets.
        processes.watch([self._process.pid, *descendants(self._process.pid)])
        try:
            self._signal(signal.SIGTERM)
            processes.await_the_end()
        finally:
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._drain.join()
            assert self._process.stdout is not None
            self._process.stdout.close()
            processes.close()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


@contextmanager
def cluster(cluster_folder: ClusterFolder) -> Iterator[str]:
    """Run a master and two workers of one core each, and yield the master's address."""
    with ExitStack() as running:

        def start(kind: str, *options: str, ready: str) -> str:
            command = [f"{HOME}/bin/spark-class", f"org.apache.spark.deploy.{kind}"]
            command += ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *options]
            return running.enter_context(
                Daemon(cluster_folder, command, cluster_folder.environ, ready=ready)
            ).ready[1]

        url = start("master.Master", ready=r"Starting Spark master at (spark://\S+)")
        for name in WORKERS:
            options = ("--cores", "1", "--memory", "1g", "--work-dir", f"{cluster_folder.folder}/{name}")
            start("worker.Worker", *options, url, ready=r"(Successfully registered) with master")
        yield url


def tasks_of(cluster_folder: ClusterFolder, worker: str) -> int:
    """Return how many tasks the executors of a worker have finished."""
    logs = (cluster_folder.folder / worker).glob("app-*/*/stderr")
    return sum(log.read_text().count("Finished task") for log in logs)


@contextmanager
def connect_server(cluster_folder: ClusterFolder, database: str) -> Iterator[str]:
    """Run a Spark Connect server with two cores, and yield its address."""
    command = [f"{HOME}/bin/spark-submit", "--master", "local[2]"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for setting in ("address=127.0.0.1", "port=0"):
        command += ["--conf", f"spark.connect.grpc.binding.{setting}"]
    # `true` is Spark's default, but `tests/short_spark.py` sets this option to false.
    command += ["--conf", "spark.sql.codegen.wholeStage=true"]
    environ = {**cluster_folder.environ, "EUTERPE_DATABASE_URL": database}
    with Daemon(cluster_folder, command, environ, ready=r"Connect server started at: \S*:(\d+)") as daemon:
        yield f"sc://127.0.0.1:{daemon.ready[1]}"
