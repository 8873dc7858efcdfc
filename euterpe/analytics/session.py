"""Spark sessions for the pipeline: local, on a cluster, or over Spark Connect.

Errors of Spark and of the disk are translated into messages that say what to do.
"""

import errno
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import euterpe
from euterpe.analytics.errors import AnalyticsError, JavaMissing, SparkMissing
from euterpe.media.sandbox.memory import memory_of_the_machine

_JAVA = 17
# With UTC, all Python processes and the JVM agree on instants, whatever the driver's time zone is.
_ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
}
_OURS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": (
        f"-Dlog4j2.configurationFile={files('euterpe.analytics') / 'log4j2.properties'}"
    ),
}
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Spark's default, 200 partitions, is for clusters. With this default, a small query on two cores spent
    # most of the time on empty tasks.
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
}
_LEAST_MEMORY, _MOST_MEMORY = 1 << 30, 8 << 30
# Failures of a Spark worker: a pattern in Spark's message, and our message with the reason and the remedy.
_WORKER_FAILURES = {
    r"No module named '([\w.]+)'": (
        "its Python lacks the package {0}; install it there, or set PYSPARK_PYTHON to a Python that has it"
    ),
    r"Python in worker has different version: ([\d.]+) than that in driver: ([\d.]+)": (
        "its Python is {0}, and that of this program {1}; set PYSPARK_PYTHON to one of the same version"
    ),
    r'Cannot run program "([^"]+)"': "it has no {0}; set PYSPARK_PYTHON to the path of a Python that it has",
    r"(?:FILE_NOT_EXIST|PATH_NOT_FOUND)\][^\n]*? file:/*(/\S+?)\.? ": (
        "it does not see {0}; the lake must be one folder, under the same path on all machines"
    ),
    r"Mkdirs failed to create file:(/\S+)": (
        "it must not write {0}; let the user that the workers run as write to the lake"
    ),
    r"FAILED_READ_FILE\.NO_HINT\][^\n]*? file:/*(/\S+\.parquet)": (
        "{0} is damaged or cannot be read: put it back from a backup, or begin a new lake"
    ),
    r"(No space left on device)": "{0}; make room for the lake, and for Spark's own files (spark.local.dir)",
    # This pattern matches an error that Euterpe's own code raised on the worker.
    r"(?m)^euterpe\.[\w.]+: (.+)$": "{0}",
}
_PORTS = {"sc": 15002, "spark": 7077}
_CONNECT_TIMEOUT_S = 10


def find_java() -> tuple[str, int]:
    """Return the path and major version of the Java that Spark will start.

    Raise `JavaMissing` if no Java is found, if it does not start, or if it is older than Java 17."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin/java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        raise JavaMissing(_java_advice("no Java was found"))
    try:
        text = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr  # noqa: S603
    except (OSError, subprocess.CalledProcessError) as error:
        raise JavaMissing(_java_advice(f"{java} does not start ({type(error).__name__})")) from error
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    major = int(found[1]) if found else 0
    if major < _JAVA:
        raise JavaMissing(_java_advice(f"{java} is version {major or 'unknown'}"))
    return java, major


def _java_advice(problem: str) -> str:
    return (
        f"{problem}, and Spark needs Java {_JAVA} or newer: install it "
        f"(Debian: openjdk-{_JAVA}-jre-headless) and set JAVA_HOME if it is not on the PATH"
    )


@contextmanager
def spark_session(
    master: str = "local[*]", *, name: str = "euterpe", config: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Yield a session. `master` is a master URL of spark-submit, or sc://host:port for Spark Connect."""
    # Hide the lines that py4j logs for each connection that it closes at the end of the program.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    is_local = master.startswith("local")
    _require_reachable(master)
    if master.startswith("sc://"):
        settings, builder = _ALWAYS, SparkSession.builder.appName(name).remote(master)
    else:
        find_java()
        settings, builder = {**_ALWAYS, **_OURS}, SparkSession.builder.appName(name).master(master)
    if is_local:
        # Local workers run the driver's Python, unless the operator has set another Python.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings = {**settings, **_LOCAL, "spark.driver.memory": f"{driver_memory() >> 20}m"}
    for key, value in {**settings, **(config or {})}.items():
        builder = builder.config(key, value)
    with tempfile.TemporaryFile() as java_output, tempfile.TemporaryDirectory() as folder:
        spark = _started(builder, master, java_output)
        try:
            with explain_spark_failures(master):
                if not is_local:
                    spark.addArtifacts(str(package(Path(folder))), pyfile=True)
                yield spark
        finally:
            spark.stop()


def driver_memory() -> int:
    """Return a quarter of the machine's memory, in bytes, limited to 1 GiB (Spark's default) to 8 GiB."""
    return max(_LEAST_MEMORY, min(memory_of_the_machine() // 4, _MOST_MEMORY))


def _require_reachable(master: str) -> None:
    """Raise `SparkMissing` if nothing listens at `master`. Without this check, Spark's client would retry for
    ten minutes to reach a Spark Connect server, or for one minute to reach a master."""
    scheme, _, hosts = master.partition("://")
    if scheme in _PORTS:
        # Spark accepts a list of masters, of which one must answer.
        problems = [_connection_problem(f"//{host}", _PORTS[scheme]) for host in hosts.split(",")]
        if all(problems):
            raise SparkMissing(f"nothing answers at {master}: {problems[0]}")


def _connection_problem(address: str, default_port: int) -> str:
    """Return why a connection to the address fails, or an empty string if it succeeds."""
    try:
        at = urlsplit(address)
        where = (at.hostname or "", at.port or default_port)
        socket.create_connection(where, timeout=_CONNECT_TIMEOUT_S).close()
    except (OSError, ValueError) as error:
        return str(error)
    return ""


def _started(builder: SparkSession.Builder, master: str, java_output: BinaryIO) -> SparkSession:
    try:
        with _stderr_into(java_output):
            return builder.getOrCreate()
    except (PySparkException, Py4JError, RuntimeError, OSError) as error:
        java_output.seek(0)
        last = java_output.read().decode(errors="replace").strip().rpartition("\n")[2]
        raise SparkMissing(
            f"Spark does not start on {master}: {last or str(error).partition(chr(10))[0]}"
        ) from error


@contextmanager
def _stderr_into(file: BinaryIO) -> Iterator[None]:
    """Redirect stderr into a file inside the `with` block.

    A Java process that starts in the block writes to the file until it ends. Users do not need the warnings
    that Java writes at its start, and see Java's errors as exceptions."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def package(folder: Path) -> Path:
    """Write Euterpe as a zip file for Spark's workers, so that they run this version of Euterpe."""
    root = Path(euterpe.__file__).parent
    packed = folder / f"euterpe-{euterpe.__version__}.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as file:
        for path in sorted(root.rglob("*.py")):
            file.write(path, path.relative_to(root.parent))
    return packed


@contextmanager
def explain_spark_failures(master: str) -> Iterator[None]:
    """Convert known failures of Spark tasks, which come with two tracebacks, to an `AnalyticsError`."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        message = str(error)
        for pattern, way_out in _WORKER_FAILURES.items():
            if found := re.search(pattern, message):
                reason = way_out.format(*found.groups())
                raise AnalyticsError(f"a worker of {master} cannot go on: {reason}") from error
        raise


@contextmanager
def explain_file_errors() -> Iterator[None]:
    """Convert an `OSError` from reading or writing a lake or a report to an `AnalyticsError`."""
    try:
        yield
    except OSError as error:
        place = error.filename or "a file"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise AnalyticsError(f"the disk of {place} is full: make room and run it again") from error
        raise AnalyticsError(f"{place}: {error.strerror or type(error).__name__}") from error
