"""A Spark session as the pipeline needs it, on a laptop or on a cluster."""

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
from euterpe.analytics.errors import JavaMissing, SparkMissing
from euterpe.analytics.spark_errors import failures_in_words
from euterpe.media.memory import memory_of_the_machine

_JAVA = 17
# Wherever the driver runs, all Python processes and the JVM agree on what an instant is.
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
    # The default of 200 is for clusters: on two cores most of a small query's time went into empty tasks.
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
}
_LEAST_MEMORY, _MOST_MEMORY = 1 << 30, 8 << 30
_PORTS = {"sc": 15002, "spark": 7077}
_CONNECT_TIMEOUT_S = 10


def find_java() -> tuple[str, int]:
    """The Java that Spark will start, and its major version."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin/java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        raise JavaMissing(_wanted("no Java was found"))
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr  # noqa: S603
    except (OSError, subprocess.CalledProcessError) as error:
        raise JavaMissing(_wanted(f"{java} does not start ({type(error).__name__})")) from error
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    major = int(found[1]) if found else 0
    if major < _JAVA:
        raise JavaMissing(_wanted(f"{java} is version {major or 'unknown'}"))
    return java, major


def _wanted(problem: str) -> str:
    return (
        f"{problem}, and Spark needs Java {_JAVA} or newer: install it "
        f"(Debian: openjdk-{_JAVA}-jre-headless) and set JAVA_HOME where it is not on the PATH"
    )


@contextmanager
def spark_session(
    master: str = "local[*]", *, name: str = "euterpe", config: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """`master` is what spark-submit takes, or sc://host:port for Spark Connect."""
    # It tells of each connection that it closes, at the end of the program when nobody listens any more.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    is_local = master.startswith("local")
    _refuse_silent(master)
    if master.startswith("sc://"):
        settings, builder = _ALWAYS, SparkSession.builder.appName(name).remote(master)
    else:
        find_java()
        settings, builder = {**_ALWAYS, **_OURS}, SparkSession.builder.appName(name).master(master)
    if is_local:
        # The workers run what the driver runs; on a cluster the operator may know better.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings = {**settings, **_LOCAL, "spark.driver.memory": f"{driver_memory() >> 20}m"}
    for key, value in {**settings, **(config or {})}.items():
        builder = builder.config(key, value)
    with tempfile.TemporaryFile() as said, tempfile.TemporaryDirectory() as folder:
        spark = _started(builder, master, said)
        try:
            with failures_in_words(master):
                if not is_local:
                    spark.addArtifacts(str(package(Path(folder))), pyfile=True)
                yield spark
        finally:
            spark.stop()


def driver_memory() -> int:
    """In bytes: a quarter of the machine. Spark's own default is 1 GiB on any."""
    return max(_LEAST_MEMORY, min(memory_of_the_machine() // 4, _MOST_MEMORY))


def _refuse_silent(master: str) -> None:
    """Spark's client would knock for ten minutes at a server, and for one at a master."""
    scheme, _, hosts = master.partition("://")
    if scheme in _PORTS:
        # A master that has others beside it may be away.
        problems = [_no_answer(f"//{host}", _PORTS[scheme]) for host in hosts.split(",")]
        if all(problems):
            raise SparkMissing(f"nothing answers at {master}: {problems[0]}")


def _no_answer(address: str, default_port: int) -> str:
    """Why, if so."""
    try:
        at = urlsplit(address)
        where = (at.hostname or "", at.port or default_port)
        socket.create_connection(where, timeout=_CONNECT_TIMEOUT_S).close()
    except (OSError, ValueError) as error:
        return str(error)
    return ""


def _started(builder: SparkSession.Builder, master: str, said: BinaryIO) -> SparkSession:
    try:
        with _stderr_into(said):
            return builder.getOrCreate()
    except (PySparkException, Py4JError, RuntimeError, OSError) as error:
        said.seek(0)
        last = said.read().decode(errors="replace").strip().rpartition("\n")[2]
        raise SparkMissing(
            f"Spark does not start on {master}: {last or str(error).partition(chr(10))[0]}"
        ) from error


@contextmanager
def _stderr_into(file: BinaryIO) -> Iterator[None]:
    """Of the Java that is started meanwhile, for as long as it lives: it greets with warnings that are
    nobody's business, and what goes wrong in it comes back as an exception."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def package(folder: Path) -> Path:
    """Euterpe as a file for the workers: what runs there is what runs here, whatever is installed there."""
    root = Path(euterpe.__file__).parent
    packed = folder / f"euterpe-{euterpe.__version__}.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as file:
        for path in sorted(root.rglob("*.py")):
            file.write(path, path.relative_to(root.parent))
    return packed
