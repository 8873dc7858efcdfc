"""The Spark session: the Java, memory and packages that it needs, and the error if any is missing."""

import errno
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import requires
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from euterpe.analytics.errors import AnalyticsError, JavaMissing, SparkMissing
from euterpe.analytics.session import (
    driver_memory,
    explain_file_errors,
    explain_spark_failures,
    find_java,
    package,
    spark_session,
)
from euterpe.analytics.source import read_table
from tests.analytics.cluster.spark_cluster import ClusterFolder
from tests.free_port import free_port

GIB = 1 << 30
Fail = Callable[[Callable[[], object]], str]


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that makes a fake `java` from a shell script, and sets JAVA_HOME for it."""

    def install(script: str) -> None:
        path = tmp_path / "bin" / "java"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    return install


@pytest.mark.parametrize(
    ("message", "major"),
    [('openjdk version "17.0.17" 2025-10-21', 17), ('java version "21" 2023-09-19', 21)],
)
def test_java_is_found_with_its_version(java: Callable[[str], None], message: str, major: int) -> None:
    java(f"echo '{message}' >&2")
    assert find_java()[1] == major


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo 'openjdk version \"1.8.0_392\"' >&2", "is version 8,"),
        ("echo 'something else' >&2", "is version unknown"),
        ("exit 1", "does not start"),
    ],
)
def test_a_java_that_will_not_do_is_named_with_the_way_out(
    java: Callable[[str], None], script: str, problem: str
) -> None:
    java(script)
    with pytest.raises(JavaMissing, match=f"bin/java {problem}.* install it .*JAVA_HOME"):
        find_java()


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissing, match="no Java was found"):
        find_java()


@pytest.mark.parametrize("scheme", ["sc", "spark"])
def test_a_server_that_does_not_answer_is_reported_at_once(scheme: str) -> None:
    master = f"{scheme}://127.0.0.1:{free_port()}"
    with pytest.raises(SparkMissing, match=f"nothing answers at {master}: "), spark_session(master):
        pass


@pytest.mark.parametrize(("machine", "driver"), [(2, 1), (16, 4), (512, 8)])
def test_the_driver_takes_a_quarter_of_the_machine_within_bounds(
    monkeypatch: pytest.MonkeyPatch, machine: int, driver: int
) -> None:
    monkeypatch.setattr("euterpe.analytics.session.memory_of_the_machine", lambda: machine * GIB)
    assert driver_memory() == driver * GIB


def test_a_local_session_has_that_memory(spark: SparkSession) -> None:
    assert spark.conf.get("spark.driver.memory") == f"{driver_memory() >> 20}m"


def test_the_package_that_workers_get_is_whole_and_needs_what_the_docs_name(
    cluster_folder: ClusterFolder, tmp_path: Path
) -> None:
    def ran(code: str) -> subprocess.CompletedProcess[str]:
        command = [str(cluster_folder.python), "-c", code]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert "No module named 'euterpe.analytics'" in ran("import euterpe.analytics").stderr
    modules = "euterpe.analytics.source.datasource, euterpe.batch.validation"
    start = (
        f"import sys; sys.path.append({str(package(tmp_path))!r}); import pyspark.sql; had = {{*sys.modules}}"
    )
    done = ran(
        f"{start}; import {modules}; print(*{{name.partition('.')[0] for name in {{*sys.modules}} - had}})"
    )
    of_tests = re.compile("extra == .(dev|bench)")
    needed = [one for one in requires("euterpe-transcode") or () if not of_tests.search(one)]
    ours = {re.split(r"[^\w-]", requirement)[0] for requirement in needed}
    assert ours & set(done.stdout.split()) == {"pyarrow", "pydantic", "pyspark", "sqlalchemy"}, done.stderr


class TestFailures:
    @pytest.fixture
    def fail(self) -> Fail:
        """Return a function that runs a failing Spark call and returns its error message."""

        def fail(call: Callable[[], object]) -> str:
            with pytest.raises(AnalyticsError) as caught, explain_spark_failures("spark://h:7077"):
                call()
            message = str(caught.value)
            assert message.startswith("a worker of spark://h:7077 cannot go on: ")
            assert "\n" not in message
            return message

        return fail

    def test_a_worker_without_a_package(self, spark: SparkSession, fail: Fail) -> None:
        def lacking(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import not_there  # type: ignore[import-not-found]  # noqa: F401, PLC0415

            yield from batches

        assert "lacks the package not_there; install" in fail(
            spark.range(1).mapInArrow(lacking, "id long").collect
        )

    def test_a_worker_without_arrow(
        self, spark: SparkSession, fail: Fail, cluster_folder: ClusterFolder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bare = cluster_folder.folder / "bare"
        bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
        bare.chmod(0o755)
        monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))
        assert "lacks the package" in fail(spark.range(1).mapInArrow(same, "id long").collect)

    def test_a_worker_without_that_python(
        self, spark: SparkSession, fail: Fail, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(spark.sparkContext, "pythonExec", "/no/python")
        message = fail(spark.range(1).mapInArrow(same, "id long").collect)
        assert "it has no /no/python; set PYSPARK_PYTHON" in message

    def test_a_worker_with_another_python(
        self, spark: SparkSession, fail: Fail, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(spark.sparkContext, "pythonVer", "3.9")
        assert "and that of this program 3.9;" in fail(spark.range(1).mapInArrow(same, "id long").collect)

    def test_a_worker_that_does_not_see_the_lake(
        self, spark: SparkSession, fail: Fail, tmp_path: Path
    ) -> None:
        spark.range(2).write.parquet(str(tmp_path / "table"))
        frame = spark.read.parquet(str(tmp_path / "table"))
        for file in (tmp_path / "table").glob("*.parquet"):
            file.unlink()
        message = fail(frame.collect)
        assert f"it does not see {tmp_path}" in message
        assert "under the same path" in message

    def test_a_lake_that_the_server_does_not_see(
        self, spark: SparkSession, fail: Fail, tmp_path: Path
    ) -> None:
        assert f"does not see {tmp_path}/gone;" in fail(lambda: spark.read.parquet(str(tmp_path / "gone")))

    def test_a_lake_that_a_worker_must_not_write(self, spark: SparkSession, fail: Fail) -> None:
        # Not even root can make a folder in /proc.
        message = fail(lambda: spark.range(2).write.parquet("/proc/lake"))
        assert "it must not write /proc/lake/" in message

    def test_an_error_of_this_program_on_a_worker_is_shown(self, spark: SparkSession, fail: Fail) -> None:
        gone = f"postgresql://u:secret@127.0.0.1:{free_port()}/euterpe"
        message = fail(lambda: read_table(spark, "jobs", url=gone).collect())
        assert "database" in message
        assert "secret" not in message

    @pytest.mark.parametrize(
        ("error", "message"),
        [
            (
                PermissionError(errno.EACCES, "Permission denied", "/lake/.lock"),
                "/lake/.lock: Permission denied",
            ),
            (OSError(errno.ENOSPC, "No space left on device", "/out"), "the disk of /out is full: make room"),
        ],
    )
    def test_a_file_that_cannot_be_written_is_named(self, error: OSError, message: str) -> None:
        with pytest.raises(AnalyticsError, match=message), explain_file_errors():
            raise error

    def test_an_unknown_error_is_raised_unchanged(self, spark: SparkSession) -> None:
        with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"), explain_spark_failures("local[2]"):
            spark.range(1).select("other")


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
