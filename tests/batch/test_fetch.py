import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from euterpe.batch.fetch import fetched
from euterpe.batch.files import ManifestError, files_of
from euterpe.batch.splits import split
from euterpe.batch.validation import examine
from tests.batch.manifests import cells, write
from tests.s3 import ACCESS_KEY_ID, SECRET_ACCESS_KEY, S3Server, serving_s3


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with serving_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def bucket(s3: S3Server, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a bucket with manifests, and set the AWS variables to read it."""
    del folder  # `folder` clears the environment, so it must run first
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    bucket = s3.bucket("plans")
    (bucket / "2030").mkdir(exist_ok=True)
    for name in ("june.csv", "may.parquet"):
        write(bucket / "2030" / name, [cells(n) for n in range(3)])
    (bucket / "2030" / "_SUCCESS").touch()
    return bucket


def refusal(manifest: str, max_bytes: int = 1000) -> str:
    with pytest.raises(ManifestError) as caught, fetched(manifest, max_bytes):
        pass
    return str(caught.value)


@pytest.mark.usefixtures("bucket")
def test_spark_reads_what_was_fetched(spark: SparkSession) -> None:
    with files_of("s3://plans/2030/") as files:
        assert [file.name for file in files] == ["s3://plans/2030/june.csv", "s3://plans/2030/may.parquet"]
        totals = examine(spark, split(files), {}, lambda _: None)
    assert (totals.rows, totals.bad, totals.duplicates) == (6, 0, 3)


@pytest.mark.usefixtures("bucket")
def test_a_pattern_chooses_among_the_objects_of_a_folder() -> None:
    with fetched("s3://plans/2030/*.csv") as files:
        assert [file.name for file in files] == ["s3://plans/2030/june.csv"]


def test_a_fetched_file_has_no_name_on_the_disk(bucket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file may contain credentials, so the disk must contain no copy after this process was killed."""
    monkeypatch.setattr("tempfile.tempdir", str(bucket.parent))
    before = [*bucket.parent.iterdir()]
    with fetched("s3://plans/2030/june.csv") as (file,):
        assert Path(file.path).read_bytes() == (bucket / "2030" / "june.csv").read_bytes()
        assert [*bucket.parent.iterdir()] == before
    assert not os.path.exists(file.path)  # noqa: PTH110


@pytest.mark.usefixtures("bucket")
def test_objects_that_cannot_be_fetched_are_reported_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal("s3://plans") == "s3://plans: must be s3://BUCKET/KEY; a folder ends with /"
    assert refusal("s3://plans/july.csv") == "s3://plans/july.csv: there is no such object or bucket"
    assert refusal("s3://plans/2031/").startswith("s3://plans/2031/: there is no file in it")
    assert refusal("s3://plans/2030/june.csv", 10).startswith("s3://plans/2030/june.csv: is too large")
    assert refusal("s3://plans/2030/june.xls").startswith("s3://plans/2030/june.xls: its name must end with")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    message = refusal("s3://plans/2030/june.csv")
    assert message == "s3://plans/2030/june.csv: the credentials of your environment may not read it"


def test_an_unreachable_store_is_reported(bucket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del bucket
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert "cannot be fetched" in refusal("s3://plans/june.csv")
