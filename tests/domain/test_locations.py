import pytest

from euterpe.domain.spec import parse_spec
from tests.domain.documents import MINIMAL, altered, refusals

WRONG_EVERYWHERE = {
    "no scheme": "bucket/key",
    "empty": "",
    "not text": 7,
    "an unknown scheme": "ftp://host/a",
    "a scheme in capitals": "S3://bucket/a",
    "a file name of Windows": "C:\\a",
    "nothing after the scheme": "s3://",
    "no bucket": "s3:///key",
    "dots for a bucket": "s3://../key",
    "a bucket with a user": "s3://user@bucket/a/",
    "a bucket with a port": "gs://bucket:80/a/",
    "a fragment": "s3://bucket/a#b/",
    "an empty fragment": "s3://bucket/a/#",
    "a query": "s3://bucket/a?versionId=1/",
    "a blank": "s3://bucket/a b/",
    "a tab": "s3://bucket/a\tb/",
    "a line end": "s3://bucket/a/\n",
    "NUL": "s3://bucket/a\0/",
    "an escaped NUL": "s3://bucket/a%00/",
    "an escaped line end": "s3://bucket/a%0d%0a/",
    "a direction mark": "s3://bucket/\u202egpj.a/",
    "half of a surrogate pair": "s3://bucket/\ud800/",
    "a backslash": "s3://bucket/..\\a/",
    "a parent": "s3://bucket/../a/",
    "an escaped parent": "s3://bucket/%2e%2E/a/",
    "a parent behind an escaped slash": "s3://bucket/a%2f..%2fb/",
    "the same folder": "s3://bucket/./a/",
    "an empty part": "s3://bucket//a/",
    "an escaped empty part": "s3://bucket/a/%2Fb/",
    "half an escape": "s3://bucket/100%/",
    "an escape of something else": "s3://bucket/%zz/",
    "an escape that is not UTF-8": "s3://bucket/%ff/",
    "a file on a host": "file://host/a/",
    "a file on this host": "file://localhost/a/",
    "a relative file": "file:a/",
    "a file outside": "file:///media/../etc/",
    "more than 8192 characters": f"s3://bucket/{'a' * 8200}/",
    "http": "http://host/a",
    "an https URL with a user": "https://user:password@host/a",
    "an https URL without a host": "https:///a",
}


@pytest.mark.parametrize("url", WRONG_EVERYWHERE.values(), ids=WRONG_EVERYWHERE)
def test_neither_a_source_nor_an_output(url: object) -> None:
    assert list(refusals(altered(MINIMAL, "source", "url", to=url))) == [("source", "url")]
    assert list(refusals(altered(MINIMAL, "output", "url", to=url))) == [("output", "url")]


@pytest.mark.parametrize(
    "url",
    [
        "s3://in/a.mov",
        "gs://bucket.with.dots_and_more/deep/er/a.mov",
        "az://container/a.mov",
        "s3://in/Kör%20Фильм/日本.mov",
        "s3://in/100%25...mov",
        "file:///media/in/a.mov",
        "https://cdn.example/a.mov",
        "https://cdn.example",
        "https://cdn.example/folder/",
        "https://cdn.example:8443/a//b.mov?X-Amz-Signature=%2F%2E%2E&b=../c",
        "https://[2001:db8::1]:443/a.mov",
        "https://192.0.2.1/a.mov",
    ],
)
def test_sources(url: str) -> None:
    assert parse_spec(altered(MINIMAL, "source", "url", to=url)).source.url == url


@pytest.mark.parametrize("url", ["s3://in/", "s3://in", "gs://in/folder/", "file:///media/", "s3://in/a%2F"])
def test_a_source_is_one_object(url: str) -> None:
    assert list(refusals(altered(MINIMAL, "source", "url", to=url))) == [("source", "url")]


@pytest.mark.parametrize(
    "url", ["s3://out/", "gs://out/a/b/", "az://out/a/", "file:///media/out/", "file:///"]
)
def test_prefixes(url: str) -> None:
    assert parse_spec(altered(MINIMAL, "output", "url", to=url)).output.url == url


@pytest.mark.parametrize("url", ["s3://out", "s3://out/a", "gs://out/a.mp4", "az://out", "file:///media/out"])
def test_a_prefix_ends_with_a_slash(url: str) -> None:
    assert list(refusals(altered(MINIMAL, "output", "url", to=url))) == [("output", "url")]


def test_an_https_output_is_a_signed_url_for_each_file() -> None:
    urls = {"mp4.mp4": "https://store.example/a?sig=1", "hls/720/seg_001.ts": "https://store.example/b?sig=2"}
    spec = parse_spec(MINIMAL | {"output": {"urls": urls}})
    assert (spec.output.urls, spec.output.scheme) == (urls, "https")
    assert (
        "`urls`"
        in refusals(altered(MINIMAL, "output", "url", to="https://store.example/a/"))["output", "url"]
    )


def test_an_output_has_either_a_prefix_or_urls() -> None:
    urls = {"a.mp4": "https://store.example/a"}
    message = "give either url or urls, and not both"
    assert refusals(MINIMAL | {"output": {"url": "s3://out/", "urls": urls}}) == {("output", "urls"): message}
    assert refusals(MINIMAL | {"output": {}}) == {("output",): message}
    assert refusals(MINIMAL | {"output": {"urls": {}}}) == {("output", "urls"): "must not be empty"}


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/a",
        "../a",
        "a/../b",
        "a//b",
        "a/",
        ".hidden",
        "a b",
        "-rf",
        "a\0",
        "é",
        "a\n",
        "a" * 256,
        "\ud800",
    ],
)
def test_a_produced_file_has_a_plain_relative_name(name: str) -> None:
    refused = refusals(MINIMAL | {"output": {"urls": {name: "https://store.example/a"}}})
    assert all(loc[:2] == ("output", "urls") for loc in refused)


@pytest.mark.parametrize(
    "url", ["http://h/a", "s3://b/a", "https://u@h/", "https://h/a#b", "https://h/%00", 1]
)
def test_an_upload_goes_to_an_https_url(url: object) -> None:
    refused = refusals(MINIMAL | {"output": {"urls": {"a.mp4": url}}})
    assert list(refused) == [("output", "urls", "a.mp4")]


@pytest.mark.parametrize("field", ["refresh_url", "status_webhook_url"])
class TestCallbacks:
    @pytest.mark.parametrize(
        "url", ["https://h/hook", "http://127.0.0.1:8080/hook?tenant=7", "https://h", "http://[::1]/"]
    )
    def test_a_callback_goes_to_an_http_url(self, field: str, url: str) -> None:
        assert getattr(parse_spec(MINIMAL | {field: url}), field) == url

    @pytest.mark.parametrize(
        "url",
        [
            "ftp://h/",
            "//h/",
            "https://",
            "https://user@h/",
            "https://user:password@h/",
            "https://h/#f",
            "https://h:0/",
            "https://h:65536/",
            "https://h:/",
            "https://h:99999999999/",
            "https://h\\@evil/",
            "https://h /",
            "https://h/\r\nx: y",
            "https://h/a/%2e%2e/b",
            "https://bücher.example/",
            "https://[::1",
            "https://[fe80::1%25eth0]/",
            "https://-h/",
            f"https://h/{'a' * 2048}",
            {},
        ],
    )
    def test_a_callback_goes_nowhere_else(self, field: str, url: object) -> None:
        assert list(refusals(MINIMAL | {field: url})) == [(field,)]


@pytest.mark.parametrize("url", ["https://user:pa55word@h/", "https://h/%zz?sig=pa55word", "pa55word"])
def test_a_refused_url_is_not_quoted(url: str) -> None:
    assert "pa55word" not in str(refusals(altered(MINIMAL, "source", "url", to=url)))
