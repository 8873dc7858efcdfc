import pytest

from euterpe.domain.credentials import S3Credentials
from euterpe.domain.errors import InvalidSpec
from euterpe.domain.spec import parse_spec
from euterpe.domain.storage_profiles import StorageProfile, with_stored_credentials
from tests.domain.documents import MINIMAL, messages_of, refusals
from tests.domain.test_credentials import S3, request_between

KEYS = S3Credentials.model_validate(S3)
PROFILES = {
    "main": StorageProfile(KEYS, frozenset({"newsroom"})),
    "narrow": StorageProfile(KEYS, frozenset({"newsroom"}), ("s3://in/", "s3://out/newsroom/")),
}


def test_a_named_profile_gives_its_credentials() -> None:
    spec = with_stored_credentials(parse_spec({**MINIMAL, "storage": "main"}), "newsroom", PROFILES)
    assert (spec.storage, spec.credentials) == ("main", KEYS)
    assert "s3cret" not in repr(spec) + repr(PROFILES)


def test_a_job_without_a_profile_stays_as_it_is() -> None:
    spec = parse_spec(MINIMAL)
    assert with_stored_credentials(spec, "newsroom", PROFILES) is spec


@pytest.mark.parametrize(("requester", "name"), [("studio", "main"), ("newsroom", "secret"), ("", "main")])
def test_a_profile_of_others_is_refused_like_an_unknown_one(requester: str, name: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        with_stored_credentials(parse_spec({**MINIMAL, "storage": name}), requester, PROFILES)
    assert messages_of(refused.value) == {
        ("storage",): "must be a storage profile that the operator lets you use"
    }


def test_a_profile_must_fit_the_store() -> None:
    spec = parse_spec(request_between("gs", "gs", storage="main"))
    with pytest.raises(InvalidSpec, match="does not fit the source, which is gs"):
        with_stored_credentials(spec, "newsroom", PROFILES)


@pytest.mark.parametrize(
    ("source", "output", "outside"),
    [
        ("s3://in/a.mov", "s3://out/newsroom/a/", set()),
        ("s3://in/a.mov", "s3://out/studio/", {"output"}),
        ("s3://in-of-others/a.mov", "s3://out/newsroomx/", {"source", "output"}),
    ],
)
def test_only_urls_below_the_prefixes_are_opened(source: str, output: str, outside: set[str]) -> None:
    spec = parse_spec({**MINIMAL, "source": {"url": source}, "output": {"url": output}, "storage": "narrow"})
    found = set()
    try:
        with_stored_credentials(spec, "newsroom", PROFILES)
    except InvalidSpec as invalid:
        found = {error.loc[0] for error in invalid.errors}
    assert found == outside


def test_a_watermark_is_read_below_the_prefixes_too() -> None:
    watermark = {"source": {"url": "s3://secret/logo.png"}}
    outputs = [{"name": "a", "type": "mp4", "video": {"codec": "h264"}, "watermark": watermark}]
    output = {"url": "s3://out/newsroom/"}
    spec = parse_spec(
        {"source": {"url": "s3://in/a.mov"}, "output": output, "outputs": outputs, "storage": "narrow"}
    )
    with pytest.raises(InvalidSpec) as refused:
        with_stored_credentials(spec, "newsroom", PROFILES)
    assert list(messages_of(refused.value)) == [("outputs", 0, "watermark", "source", "url")]


def test_credentials_and_a_profile_exclude_each_other() -> None:
    both = {**MINIMAL, "credentials": S3, "storage": "main"}
    assert refusals(both) == {("storage",): "give either credentials or storage, and not both"}
