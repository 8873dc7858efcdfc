"""Build the body of `POST /transcode` from a spec file and options.

If the service refuses fields, the error message names the option of each field.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import typer

from euterpe.cli.output_option import parse_object, parse_output
from euterpe.client import Invalid
from euterpe.domain.errors import FieldError
from euterpe.domain.spec import MAX_BODY_BYTES

Document = dict[str, Any]
Loc = tuple[str | int, ...]
T = TypeVar("T")

OPTIONS: Mapping[Loc, str] = {
    ("source",): "SOURCE",
    ("source", "url"): "SOURCE",
    ("output",): "--to",
    ("output", "url"): "--to",
    ("profile",): "--profile",
    ("outputs",): "--output",
    ("credentials",): "--credentials",
    ("storage",): "--storage",
    ("refresh_url",): "--refresh-url",
    ("status_webhook_url",): "--webhook",
    ("webhook_events",): "--webhook-event",
    ("webhook_format",): "--webhook-format",
    ("queue",): "--queue",
    ("priority",): "--priority",
    ("group",): "--group",
    ("group", "id"): "--group",
    ("group", "limit"): "--group-limit",
    ("not_before",): "--not-before",
    ("max_attempts",): "--max-attempts",
    ("timeout_seconds",): "--timeout",
    ("max_source_bytes",): "--max-source",
    ("allow_truncated",): "--allow-truncated",
    ("external_id",): "--external-id",
    ("metadata",): "--metadata",
}
"""The option of each field of a job."""

# The values of these options are added to the object in the same field of the spec. The value of any other
# option replaces the field of the spec.
_ADDED = ("group", "metadata")
_EITHER = {"profile": "outputs", "outputs": "profile"}


class JobRequest:
    """The body of a request, where options override the fields of a spec."""

    def __init__(self, given: Mapping[str, object], spec: Document | None, spec_name: str = "") -> None:
        self._given = {name: value for name, value in given.items() if value is not None}
        self._spec_name = spec_name
        if self._given.keys() >= _EITHER.keys():
            raise typer.BadParameter("give --profile or --output, and not both")
        self.body = _override(spec or {}, self._given)
        if spec is None:
            self._require_options()

    def named(self, refusal: Invalid) -> Invalid:
        """Return an error whose message names the option, or the path in the spec, of each refused field."""
        if not refusal.errors:
            return refusal
        problems = "; ".join(self._place_and_problem(error) for error in refusal.errors)
        count = len(refusal.errors)
        errors = "1 error" if count == 1 else f"{count} errors"
        return Invalid(
            f"the request has {errors}: {problems}{self._refused_files(refusal)}",
            code=refusal.code,
            request_id=refusal.request_id,
        )

    def _require_options(self) -> None:
        missing = [OPTIONS[(name,)] for name in ("source", "output") if name not in self.body]
        if not self.body.keys() & _EITHER.keys():
            missing.append("--profile or --output")
        if missing:
            raise typer.BadParameter(f"give {', '.join(missing)}; or the whole job with --spec FILE")

    def _place_and_problem(self, error: FieldError) -> str:
        place = self._option_of(error.loc) if error.loc[:1] and error.loc[0] in self._given else None
        if place is None:
            place = ".".join(map(str, error.loc)) or "body"
            place = f"{self._spec_name}: {place}" if self._spec_name else place
        return f"{place}: {error.msg}"

    def _option_of(self, loc: Loc) -> str | None:
        """Return the option that set this field, or None if the field comes from the spec."""
        if loc[0] in _ADDED and len(loc) > 1 and loc[1] not in _keys(self._given[str(loc[0])]):
            return None
        known = max((path for path in OPTIONS if loc[: len(path)] == path), key=len)
        inner = list(map(str, loc[len(known) :]))
        option = OPTIONS[known]
        if known == ("outputs",) and inner:
            number = int(inner.pop(0)) + 1
            option = f"{option} {self.body['outputs'][number - 1].get('name', number)}"
        return f"{option}: {'.'.join(inner)}" if inner else option

    def _refused_files(self, refusal: Invalid) -> str:
        """Return the file URLs that were refused.

        The message shows these URLs, because the user may have typed relative paths.
        """
        refused = {error.loc[:2] for error in refusal.errors}
        urls = [
            self.body.get(side, {}).get("url") for side in ("source", "output") if (side, "url") in refused
        ]
        files = [url for url in urls if isinstance(url, str) and url.startswith("file://")]
        return f" ({', '.join(files)})" if files else ""


def _override(spec: Document, given: Mapping[str, Any]) -> Document:
    kept = {name: value for name, value in spec.items() if _EITHER.get(name) not in given}
    if isinstance(kept.get("group"), str):
        kept["group"] = {"id": kept["group"]}
    added = {
        name: {**kept[name], **given[name]}
        for name in _ADDED
        if name in given and isinstance(kept.get(name), dict)
    }
    return {**kept, **given, **added}


def _keys(value: object) -> Sequence[object]:
    return list(value) if isinstance(value, dict) else ()


# -- values of options


def read_spec(file: str) -> tuple[Document, str]:
    """Return the spec in a file (for `-`, on stdin), and the name of the file for messages.

    Raise `BadParameter` if the file cannot be read or has no JSON object.
    """
    name = "stdin" if file == "-" else file
    raw = sys.stdin.buffer.read(MAX_BODY_BYTES + 1) if file == "-" else _read_file(Path(file), "--spec")
    return parse_object(raw, "--spec", name), name


def read_credentials(file: Path) -> Document:
    return parse_object(_read_file(file, "--credentials"), "--credentials", str(file))


def _read_file(file: Path, option: str) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_BODY_BYTES + 1)
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint=option) from None


def source_url(source: str, option: str = "SOURCE") -> str:
    """Return the URL of a source that may be a local path. Raise `BadParameter` if there is no such file."""
    if "://" in source:
        return source
    if not Path(source).is_file():
        raise typer.BadParameter(f"is neither a URL nor a file: {source}", param_hint=option)
    return Path(source).resolve().as_uri()


def prefix_url(to: str) -> str:
    return to if "://" in to else f"{Path(to).resolve().as_uri()}/"


def outputs_of(texts: Sequence[str] | None) -> list[Document] | None:
    """Return the outputs that the texts describe. The picture of a watermark may be a local path."""
    return [_with_watermark_url(parse_output(text)) for text in texts or ()] or None


def _with_watermark_url(output: Document) -> Document:
    match output:
        case {"watermark": {"source": {"url": str(url)} as source}}:
            source["url"] = source_url(url, "--output")
    return output


def group_of(group_id: str | None, limit: int | None) -> Document | None:
    given = {"id": group_id, "limit": limit}
    return {name: value for name, value in given.items() if value is not None} or None


def metadata_of(texts: Sequence[str] | None) -> Document | None:
    """Return the metadata from `KEY=VALUE` texts and JSON objects. A value after `=` is always a string."""
    merged: Document = {}
    for text in texts or ():
        merged |= _metadata(text)
    return merged or None


def _metadata(text: str) -> Document:
    if text.lstrip().startswith("{"):
        return parse_object(text, "--metadata")
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise typer.BadParameter(f"must be KEY=VALUE or a JSON object, not {text!r}", param_hint="--metadata")
    return {key: value}
