"""Tests of the operator's storage policy: allowed roots and endpoints."""

from pathlib import Path

import pytest

from euterpe.domain.errors import FieldError, InvalidSpec
from euterpe.domain.own_source import ADVICE as OWN_SOURCE_ADVICE
from euterpe.domain.spec import parse_spec
from euterpe.storage.policy import AZURE_ADVICE, ENDPOINT_ADVICE, NAME_ADVICE, ROOT_ADVICE, StoragePolicy
from tests.domain.documents import MINIMAL, Document

MINIO = "https://minio.example:9000"
S3 = {"type": "s3", "access_key_id": "AKIA", "secret_access_key": "s3cret"}


def problems(policy: StoragePolicy, document: Document) -> dict[tuple[str | int, ...], str]:
    found = policy.problems(parse_spec(MINIMAL | document))
    assert all(isinstance(problem, FieldError) for problem in found)
    return {problem.loc: problem.msg for problem in found}


def test_without_roots_there_are_no_files() -> None:
    document = {"source": {"url": "file:///data/a.mov"}, "output": {"url": "file:///data/out/"}}
    assert problems(StoragePolicy(), document) == {
        ("source", "url"): ROOT_ADVICE,
        ("output", "url"): ROOT_ADVICE,
    }


def test_a_watermark_beside_the_roots_is_refused() -> None:
    def refusals(url: str) -> dict[tuple[str | int, ...], str]:
        marked = {"name": "b", "type": "mp4", "watermark": {"source": {"url": url}}}
        outputs = [{"name": "a", "type": "mp4"}, marked]
        return problems(StoragePolicy(roots=(Path("/data"),)), {"profile": None, "outputs": outputs})

    place = ("outputs", 1, "watermark", "source", "url")
    assert refusals("file:///etc/passwd") == {place: ROOT_ADVICE}
    assert refusals("file:///data") == {place: NAME_ADVICE}
    assert refusals("file:///data/logo.png") == {}


@pytest.mark.parametrize(
    ("source", "mark", "is_refused"),
    [
        ("s3://in/a.mov", "az://account/in/logo.png", True),
        ("https://in.example/a.mov", "az://account/in/logo.png", True),
        ("az://account/in/a.mov", "az://account/other/logo.png", False),
        ("https://in.example/a.mov", "s3://public/logo.png", False),
        ("s3://in/a.mov", "https://in.example/logo.png", False),
    ],
)
def test_a_watermark_in_azure_needs_a_source_in_azure(source: str, mark: str, is_refused: bool) -> None:
    """In an earlier version, such a job failed on every worker.

    Its credentials did not name the Azure account.
    """
    marked = {"name": "a", "type": "mp4", "watermark": {"source": {"url": mark}}}
    document = {"source": {"url": source}, "credentials": None, "profile": None, "outputs": [marked]}
    place = ("outputs", 0, "watermark", "source", "url")
    assert problems(StoragePolicy(), document) == ({place: AZURE_ADVICE} if is_refused else {})


def test_an_output_onto_its_own_source_is_refused() -> None:
    outputs = {"profile": None, "outputs": [{"name": "mp4", "type": "mp4"}]}
    places = {"source": {"url": "s3://b/a/mp4.mp4"}, "output": {"url": "s3://b/a/"}}
    assert problems(StoragePolicy(), {**outputs, **places}) == {("output", "url"): OWN_SOURCE_ADVICE}


@pytest.mark.parametrize("path", ["/data/a.mov", "/data/a/b.mov", "/data/%61.mov", "/other/x/a.mov"])
def test_a_file_below_a_root_is_allowed(path: str) -> None:
    policy = StoragePolicy(roots=(Path("/data"), Path("/other/x")))
    assert problems(policy, {"source": {"url": f"file://{path}"}}) == {}


@pytest.mark.parametrize("path", ["/database/a.mov", "/other/a.mov", "/%64atabase/a.mov", "/etc/passwd"])
def test_a_file_beside_the_roots_is_refused(path: str) -> None:
    policy = StoragePolicy(roots=(Path("/data"), Path("/other/x")))
    assert list(problems(policy, {"source": {"url": f"file://{path}"}})) == [("source", "url")]


@pytest.mark.parametrize("path", ["/data", "/%64ata", "/da%74a", "/other/x", "/other%2Fx"])
def test_a_root_itself_is_no_source(path: str) -> None:
    policy = StoragePolicy(roots=(Path("/data"), Path("/other/x/"), Path("/other")))
    assert problems(policy, {"source": {"url": f"file://{path}"}}) == {("source", "url"): NAME_ADVICE}


@pytest.mark.parametrize("prefix", ["/data/", "/%64ata/", "/other/x/", "/other%2Fx/"])
def test_a_root_itself_is_no_output(prefix: str) -> None:
    policy = StoragePolicy(roots=(Path("/data"), Path("/other/x/")))
    assert problems(policy, {"output": {"url": f"file://{prefix}"}}) == {("output", "url"): NAME_ADVICE}
    assert problems(policy, {"output": {"url": f"file://{prefix}a/"}}) == {}


def test_a_root_that_is_a_link_is_no_source_by_either_name(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    policy = StoragePolicy(roots=(tmp_path / "link",))
    for name, msg in (("link", NAME_ADVICE), ("real", ROOT_ADVICE)):
        assert problems(policy, {"source": {"url": f"file://{tmp_path}/{name}"}}) == {("source", "url"): msg}


@pytest.mark.parametrize(
    "url", ["file:///data/", "file:///data//", "file:///data/.", "file:///data/a/..", "file://data"]
)
def test_another_spelling_of_a_root_is_refused_before_the_policy_is_applied(url: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        parse_spec(MINIMAL | {"source": {"url": url}})
    assert [error.loc for error in refused.value.errors] == [("source", "url")]


@pytest.mark.parametrize(
    "endpoint",
    [
        None,
        MINIO,
        "https://MINIO.example:9000/",
        "http://store.example:80/account",
        "https://s3.eu-central-1.amazonaws.com",
        "https://s3.amazonaws.com",
        "https://s3.cn-north-1.amazonaws.com.cn",
        "https://storage.googleapis.com",
        "https://account.blob.core.windows.net",
    ],
)
def test_the_clouds_and_what_the_operator_lists_are_allowed(endpoint: str | None) -> None:
    policy = StoragePolicy(endpoints=(MINIO, "http://store.example"))
    assert policy.allows(endpoint)
    assert problems(policy, {"credentials": S3 | {"endpoint": endpoint}}) == {}


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://minio.example:9000",
        "https://minio.example",
        "https://minio.example:9001",
        "https://minio.example.evil:9000",
        "http://169.254.169.254",
        "http://s3.eu-central-1.amazonaws.com",
        "https://s3.eu-central-1.amazonaws.com:8443",
        "https://s3.evil.example",
        "https://s3.eu-central-1.amazonaws.com.evil",
        "https://ec2-1-2-3-4.compute-1.amazonaws.com",
        "https://storage.googleapis.com.evil",
        "https://account.blob.core.windows.net.evil",
        "https://x.account.blob.core.windows.net",
    ],
)
def test_any_other_endpoint_is_refused(endpoint: str) -> None:
    policy = StoragePolicy(endpoints=(MINIO,))
    found = problems(policy, {"credentials": S3 | {"endpoint": endpoint}})
    assert found == {("credentials", "endpoint"): ENDPOINT_ADVICE}


def test_each_side_of_a_pair_is_judged() -> None:
    pair = {"source": S3 | {"endpoint": MINIO}, "output": S3 | {"endpoint": "http://10.0.0.1"}}
    found = problems(StoragePolicy(endpoints=(MINIO,)), {"credentials": pair})
    assert list(found) == [("credentials", "output", "endpoint")]
    assert list(problems(StoragePolicy(), {"credentials": {"source": pair["output"]}})) == [
        ("credentials", "source", "endpoint")
    ]


@pytest.mark.parametrize("wrong", ["minio.example:9000", "s3://minio", "https://", "https://user@minio"])
def test_a_listed_endpoint_that_is_no_origin_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="must be an origin"):
        StoragePolicy(endpoints=(wrong,))


def test_a_listed_root_that_is_relative_is_refused() -> None:
    with pytest.raises(ValueError, match="must be an absolute path"):
        StoragePolicy(roots=(Path("data"),))
