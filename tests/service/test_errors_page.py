"""Test that `docs/errors.md` has a row for every error code that the code can produce, and no other row."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import euterpe
from euterpe.api.problems import ProblemCode
from euterpe.client import errors as client_errors
from euterpe.client.errors import ClientCode
from euterpe.client.receiver import MalformedBody
from euterpe.crypto import errors as crypto_errors
from euterpe.dispatch.sender import NoWebhookSecret
from euterpe.domain.callback_codes import DeliveryCode, ReceiverCode
from euterpe.domain.credentials import Side
from euterpe.domain.error_codes import ErrorCode, Release
from euterpe.domain.errors import EuterpeError
from euterpe.net.errors import EgressError
from euterpe.storage.errors import SideCode

PACKAGE = Path(euterpe.__file__).parent
PAGE = PACKAGE.parent / "docs" / "errors.md"
# The functions whose first argument is an error code.
_CALLS = ("StorageError", "JobError", "MediaError", "WorkerFault", "_error", "__init__")
_CODE = re.compile(r"[a-z]+(_[a-z]+)+")


def table(title: str) -> list[list[str]]:
    section = PAGE.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def codes(title: str) -> list[str]:
    return [row[0].strip("`") for row in table(title)]


def raised_in(*files: Path) -> set[str]:
    """Return the error codes that these source files give as literals where they create an error."""
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


def leaf_codes(kind: type[EuterpeError]) -> set[str]:
    """Return the codes of all direct and indirect subclasses that have no subclasses themselves."""
    kinds = kind.__subclasses__()
    return {code for each in kinds for code in leaf_codes(each)} if kinds else {kind.code}


def test_every_error_of_a_job_is_raised_as_a_member_of_the_table() -> None:
    """mypy checks only calls whose type it knows. This test also finds literals behind an `Any`."""
    folders = ("domain", "media", "storage", "worker")
    assert raised_in(*(file for folder in folders for file in (PACKAGE / folder).rglob("*.py"))) == set()


def test_every_code_of_the_table_is_raised_somewhere() -> None:
    product = [file for file in PACKAGE.rglob("*.py") if "synthesize" not in file.parts]
    named = {name for file in product for name in re.findall(r"\bErrorCode\.([A-Z_]+)", file.read_text())}
    of_a_side = {side_code.for_side(side) for side_code in SideCode for side in get_args(Side)}
    finals = {code.final for code in ErrorCode if code.release.is_bounded}
    assert {code for code in ErrorCode if code.name not in named} <= of_a_side | finals


def test_the_page_has_the_failures_and_then_the_reasons_of_releases() -> None:
    reasons = [code for code in ErrorCode if code.release is Release.ALWAYS or code.release.is_bounded]
    assert codes("Of jobs") == [*(code for code in ErrorCode if code not in reasons), *reasons]


def test_every_problem_of_a_call_has_a_row_with_its_status() -> None:
    shown = [(row[0].strip("`"), int(row[1])) for row in table("Of HTTP calls")]
    assert shown == [(code.value, code.status) for code in ProblemCode]


def test_every_failure_of_a_delivery_is_in_the_table_and_on_the_page() -> None:
    sealed = {
        crypto_errors.CannotDecrypt.code,
        crypto_errors.UnknownKek.code,
        crypto_errors.UnknownFormat.code,
    }
    expected = leaf_codes(EgressError) | sealed | {NoWebhookSecret.code, "internal_error", "receiver_down"}
    assert codes("Of webhooks") == list(DeliveryCode)
    assert set(DeliveryCode) == expected


def test_every_flaw_of_a_signed_request_is_in_the_table_and_on_the_page() -> None:
    assert codes("In a receiver") == list(ReceiverCode)
    assert set(ReceiverCode) == leaf_codes(crypto_errors.SignatureError) | {MalformedBody.code}


def test_every_error_of_the_client_is_in_its_table_or_that_of_the_api() -> None:
    kinds = [kind for kind in vars(client_errors).values() if isinstance(kind, type)]
    expected = {kind.code for kind in kinds if issubclass(kind, client_errors.ClientError)}
    assert codes("In a client") == list(ClientCode)
    assert set(ClientCode) == expected - set(ProblemCode)
    for kind in kinds:
        if issubclass(kind, client_errors.ClientError) and isinstance(kind.code, ClientCode):
            assert kind.retryable == kind.code.retryable, kind
