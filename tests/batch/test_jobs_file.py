from pathlib import Path

import pytest

from euterpe.batch.jobs_file import Batch, JobsFile, JobsFileError, Submitted, jobs_path, read_batch


def written(path: Path) -> Path:
    with JobsFile(path, 3) as jobs:
        jobs.add("june.csv:2", "job-1")
        jobs.add("june.csv:3", "job-2")
        assert len(read_batch(path).submitted) == 2  # both lines are in the file already
    return path


def test_what_was_written_is_read(folder: Path) -> None:
    batch = read_batch(written(folder / "june.csv.jobs"))
    assert batch == Batch(3, [Submitted("job-1", "june.csv:2"), Submitted("job-2", "june.csv:3")])


def test_a_partial_last_line_is_left_out(folder: Path) -> None:
    path = written(folder / "june.csv.jobs")
    path.write_bytes(path.read_bytes()[:-5])
    assert [each.job_id for each in read_batch(path).submitted] == ["job-1"]


@pytest.mark.parametrize("text", ["", "{", "profile,queue\n", "[]\n", '{"rows": 1}\n{"row": 1}\n', "\xff"])
def test_a_file_of_another_kind_is_refused(folder: Path, text: str) -> None:
    (folder / "june.csv").write_text(text, encoding="latin-1")
    with pytest.raises(JobsFileError, match="is not a jobs file that `euterpe batch submit` wrote"):
        read_batch(folder / "june.csv")


def test_a_later_submission_begins_it_anew(folder: Path) -> None:
    path = written(folder / "june.csv.jobs")
    with JobsFile(path, 1) as jobs:
        jobs.add("june.csv:2", "job-1")
    assert read_batch(path) == Batch(1, [Submitted("job-1", "june.csv:2")])


def test_a_second_submission_is_refused_and_truncates_nothing(folder: Path) -> None:
    path = folder / "june.csv.jobs"
    with JobsFile(path, 2) as first:
        first.add("june.csv:2", "j1")
        with pytest.raises(JobsFileError, match="another submission writes to it"):
            JobsFile(path, 9)
        first.add("june.csv:3", "j2")
    assert [line.job_id for line in read_batch(path).submitted] == ["j1", "j2"]


def test_for_a_missing_file_the_error_names_the_command_that_writes_it(folder: Path) -> None:
    with pytest.raises(JobsFileError, match="No such file or directory: `euterpe batch submit` writes it"):
        read_batch(folder / "june.csv.jobs")


@pytest.mark.parametrize(
    ("manifest", "path"),
    [
        ("in/june.csv", "in/june.csv.jobs"),
        ("in/june/", "in/june.jobs"),
        ("in/*.csv", "in/_.csv.jobs"),
        ("s3://bucket/in/june.csv", "june.csv.jobs"),
        ("s3://bucket/june/", "june.jobs"),
    ],
)
def test_it_is_beside_the_manifest(manifest: str, path: str) -> None:
    assert jobs_path(manifest) == Path(path)
