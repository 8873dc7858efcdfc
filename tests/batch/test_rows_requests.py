from pathlib import Path
from typing import Any

import pytest

from euterpe.batch.files import ManifestError
from euterpe.batch.row_problems import RowPlace
from euterpe.batch.rows import key_of, requests, secret_of
from euterpe.domain.spec import parse_spec
from euterpe.domain.text import IDEMPOTENCY_KEY
from tests.batch.manifests import cells, pieces_of, write
from tests.domain.documents import MINIMAL

KEYS = {"type": "s3", "access_key_id": "a", "secret_access_key": "b"}


def key(**fields: Any) -> str:
    return key_of(parse_spec({**MINIMAL, **fields}))


def test_the_idempotency_key_depends_on_the_meaning_of_the_row() -> None:
    assert key() == key(queue="default", credentials=KEYS)
    assert len({key(), key(queue="night"), key(external_id="a"), key(output={"url": "s3://out/b/"})}) == 4
    assert IDEMPOTENCY_KEY(key()).startswith("batch-")


def test_the_secret_part_has_a_salted_digest() -> None:
    plain, sealed = parse_spec(MINIMAL), parse_spec({**MINIMAL, "credentials": KEYS})
    assert secret_of(sealed, b"salt") == secret_of(sealed, b"salt")
    assert len({secret_of(spec, salt) for spec in (plain, sealed) for salt in (b"salt", b"other")}) == 4


def test_the_keys_of_encrypted_outputs_are_secrets_of_the_row() -> None:
    def with_key(digit: str) -> dict[str, Any]:
        lock = {"key_url": "https://keys.example/1", "key": digit * 32}
        hls = {"name": "hls", "type": "hls", "video": {"ladder": "auto"}, "encryption": lock}
        return {"profile": None, "outputs": [hls]}

    assert key(**with_key("a")) == key(**with_key("b"))
    specs = [parse_spec({**MINIMAL, **with_key(digit)}) for digit in "ab"]
    assert len({secret_of(spec, b"salt") for spec in specs}) == 2


def test_excluded_rows_are_not_requested(folder: Path) -> None:
    pieces = pieces_of(write(folder / "june.csv", [cells(n) for n in range(4)]))
    good = list(requests(pieces, {"queue": "night"}, {RowPlace(0, 3)}))
    assert [(request.line, request.document["queue"]) for request in good] == [
        (2, "night"),
        (4, "night"),
        (5, "night"),
    ]


def test_a_manifest_that_changes_after_the_check_is_refused(folder: Path) -> None:
    path = write(folder / "june.csv", [cells(1)])
    pieces = pieces_of(path)
    path.write_text(path.read_text().replace("s3://in", "xx://in"))
    with pytest.raises(ManifestError, match="has changed since it was checked"):
        list(requests(pieces, {}, ()))
