"""Test that `docs/errors.md` has a row for every error code that the code can produce, and no other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import euterpe
from euterpe.api.problems import PROBLEMS
from euterpe.client import errors as client_errors
from euterpe.client.receiver import MalformedBody
from euterpe.crypto import errors as crypto_errors
from euterpe.crypto.errors import CannotDecrypt
from euterpe.dispatch.signing_secrets import NoWebhookSecret
from euterpe.domain.errors import EuterpeError
from euterpe.media.errors import MEDIA_CODES, MediaError
from euterpe.net.errors import EgressError
from euterpe.worker.attempt_control import AttemptTimeout
from euterpe.worker.disk import DiskFull, TooLargeForWorker

PACKAGE = Path(euterpe.__file__).parent
PAGE = PACKAGE.parent / "docs" / "errors.md"
# The calls that take a code as their first argument.
_CALLS = ("StorageError", "JobError", "MediaError", "WorkerFault", "_error", "__init__")
_CODE = re.compile(r"[a-z]+(_[a-z]+)+")


def table(title: str) -> list[list[str]]:
    section = PAGE.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def codes(title: str) -> list[str]:
    return [row[0].strip("`") for row in table(title)]


def raised_in(*files: Path) -> set[str]:
    """Return the error codes that appear where these source files create an error."""
    return {
        code
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        for part in _codes_of(node)
        for text in ast.walk(part)
        for code in _literals(text)
        if _CODE.fullmatch(code)
    }


def _codes_of(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[code, *_]) if name in _CALLS:
            yield code
        case ast.Assign(
            targets=[ast.Tuple(elts=[ast.Name(id="code"), *_])], value=ast.Tuple(elts=[code, *_])
        ):
            yield code
        case ast.keyword(arg="code", value=code):
            yield code


def _literals(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(
            values=[ast.FormattedValue(value=ast.Name(id="side")), ast.Constant(value=str(end))]
        ):
            yield from (f"source{end}", f"output{end}")


def leaf_codes(kind: type[EuterpeError]) -> set[str]:
    """Return the codes of the subclasses that have no subclasses themselves."""
    kinds = kind.__subclasses__()
    return {code for each in kinds for code in leaf_codes(each)} if kinds else {kind.code}


def test_every_error_of_a_job_has_a_row() -> None:
    files = [*(PACKAGE / "storage").rglob("*.py"), *(PACKAGE / "worker").glob("*.py")]
    expected = raised_in(*files, PACKAGE / "domain" / "retry.py")
    assert {"source_forbidden", "output_unreachable", "storage_throttled", "source_overlong"} <= expected
    expected |= {
        *MEDIA_CODES,
        AttemptTimeout.code,
        DiskFull.code,
        TooLargeForWorker.code,
        CannotDecrypt.code,
        "canceled",
    }
    assert sorted(codes("Of jobs")) == sorted(expected)


@pytest.mark.parametrize("code", MEDIA_CODES)
def test_the_page_says_whether_media_errors_are_retried(code: str) -> None:
    (shown,) = [row[3] for row in table("Of jobs") if row[0] == f"`{code}`"]
    if shown in ("yes", "no"):
        assert (shown == "yes") == MediaError(code, "").retryable


def test_every_problem_of_a_call_has_a_row_with_its_status() -> None:
    shown = [(row[0].strip("`"), int(row[1])) for row in table("Of HTTP calls")]
    assert shown == [(code, kind.status) for code, kind in PROBLEMS.items()]


def test_every_failure_of_a_delivery_has_a_row() -> None:
    sealed = {
        crypto_errors.CannotDecrypt.code,
        crypto_errors.UnknownKek.code,
        crypto_errors.UnknownFormat.code,
    }
    expected = leaf_codes(EgressError) | sealed | {NoWebhookSecret.code, "internal_error", "receiver_down"}
    assert sorted(codes("Of webhooks")) == sorted(expected)


def test_every_flaw_of_a_signed_request_has_a_row() -> None:
    expected = leaf_codes(crypto_errors.SignatureError) | {MalformedBody.code}
    assert sorted(codes("In a receiver")) == sorted(expected)


def test_every_error_of_the_client_has_a_row() -> None:
    kinds = [kind for kind in vars(client_errors).values() if isinstance(kind, type)]
    expected = {kind.code for kind in kinds if issubclass(kind, client_errors.ClientError)}
    assert sorted(codes("In a client")) == sorted(expected - PROBLEMS.keys())
