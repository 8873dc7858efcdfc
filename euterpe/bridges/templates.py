"""Templates of a mapping: text with placeholders for values of a foreign job, like `s3://media/{id}/`.

A placeholder is `{id}`, `{name}`, `{ref}`, or the exact path of a value in the payload, `{data.a.b}`. The
text after a bar is the default if the payload has no such value: `{data.profile|h264-720p}`. There are no
expressions.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from euterpe.bridges.adapter import ForeignJob
from euterpe.domain.errors import FieldError
from euterpe.domain.text import text_problem

_PLACEHOLDER = re.compile(r"\{([^{}|]*)(\|[^{}]*)?\}")
_PATH = re.compile(r"id|name|ref|data(?:\.[A-Za-z0-9_-]+)+")
_LONGEST_SEGMENT = 200  # in characters; file systems allow names of 255 bytes
_ABSENT = object()


class MappingRefused(Exception):  # caught in `mapping.py`, which collects all errors of a job
    """The values of a job do not fit its mapping."""

    def __init__(self, *errors: FieldError) -> None:
        self.errors = errors
        super().__init__(len(errors))


@dataclass(frozen=True)
class Placeholder:
    path: str
    default: str | None

    def value(self, job: ForeignJob) -> str:
        """Return the value in the job, or the default. Raise `MappingRefused` if no value is valid."""
        value = self._found(job)
        if value is _ABSENT or value is None:
            if self.default is None:
                raise self._refused("is required")
            return self.default
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise self._refused("must be a text or an integer")
        if isinstance(value, int) and abs(value) > 2**53:
            raise self._refused("must be a number between -2^53 and 2^53")
        text = str(value)
        if problem := text_problem(text):
            raise self._refused(problem)
        return text

    def _found(self, job: ForeignJob) -> object:
        if self.path == "id":
            return job.job_id
        if self.path == "name":
            return job.name
        if self.path == "ref":
            return sha256(job.source_ref.encode()).hexdigest()[:32]
        found: object = job.data
        for key in self.path.split(".")[1:]:
            if not isinstance(found, Mapping) or key not in found:
                return _ABSENT
            found = found[key]
        return found

    def _refused(self, problem: str) -> MappingRefused:
        return MappingRefused(FieldError(tuple(self.path.split(".")), problem))

    def segment(self, job: ForeignJob) -> str:
        """Return the value, escaped, as one segment of an output's path.

        Different values give different segments, and no segment is `.` or `..`. The percent signs of the
        escapes are escaped again, because the path of the URL is decoded once later. So the object's name
        contains the escapes.
        """
        escaped = quote(self.value(job), safe="")
        if not escaped or len(escaped) > _LONGEST_SEGMENT:
            raise self._refused(f"must have 1 to {_LONGEST_SEGMENT} characters, escaped for a path")
        if set(escaped) == {"."}:
            escaped = escaped.replace(".", "%2E")
        return escaped.replace("%", "%25")

    def key(self, job: ForeignJob) -> str:
        """Return the value, escaped, as a part of a source's key. The value may contain slashes."""
        return quote(self.value(job), safe="/")


Encoder = Callable[[Placeholder, ForeignJob], str]


@dataclass(frozen=True)
class Template:
    """The parts of a template: fixed texts and placeholders."""

    parts: tuple[str | Placeholder, ...]

    @classmethod
    def parse(cls, text: str) -> "Template":
        """Return the parsed template. Raise `ValueError` with the reason if the text is not valid."""
        parts: list[str | Placeholder] = []
        end = 0
        for match in _PLACEHOLDER.finditer(text):
            path, default = match[1], match[2]
            if not _PATH.fullmatch(path):
                raise ValueError("may have {id}, {name}, {ref} and paths like {data.a.b} as placeholders")
            parts += [text[end : match.start()], Placeholder(path, default[1:] if default else None)]
            end = match.end()
        parts.append(text[end:])
        fixed = [part for part in parts if isinstance(part, str)]
        if any(brace in part for part in fixed for brace in "{}"):
            raise ValueError("has a brace that belongs to no placeholder")
        return cls(tuple(part for part in parts if part != ""))

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        return tuple(part for part in self.parts if isinstance(part, Placeholder))

    @property
    def is_one_placeholder(self) -> bool:
        return len(self.parts) == 1 and isinstance(self.parts[0], Placeholder)

    @property
    def constant(self) -> str | None:
        """Return the text if the template has no placeholders, else None."""
        return None if self.placeholders else "".join(map(str, self.parts))

    def may_begin_with(self, prefix: str) -> bool:
        """Return whether the filled template can begin with this text."""
        if self.constant is not None:
            return self.constant.startswith(prefix)
        return self.beginning.startswith(prefix) or prefix.startswith(self.beginning)

    @property
    def beginning(self) -> str:
        """Return the fixed text before the first placeholder."""
        return self.parts[0] if self.parts and isinstance(self.parts[0], str) else ""

    def text(self, job: ForeignJob) -> str:
        return self._filled(job, Placeholder.value)

    def output(self, job: ForeignJob) -> str:
        """Return the URL of an output. A value cannot change the fixed parts of the path around it."""
        return self.text(job) if self.is_one_placeholder else self._filled(job, Placeholder.segment)

    def source(self, job: ForeignJob) -> str:
        """Return the URL of a source.

        If the template begins with fixed text, no value can lead to a key outside of this prefix.
        """
        return self.text(job) if self.is_one_placeholder else self._filled(job, Placeholder.key)

    def _filled(self, job: ForeignJob, encode: Encoder) -> str:
        errors: list[FieldError] = []
        filled: list[str] = []
        for part in self.parts:
            try:
                filled.append(part if isinstance(part, str) else encode(part, job))
            except MappingRefused as refused:
                errors += refused.errors
        if errors:
            raise MappingRefused(*errors)
        return "".join(filled)


def url_problem(template: Template, *, is_output: bool) -> str | None:
    """Return the error in a template of a URL, or None.

    In an output, two placeholders in one segment are refused: `{data.a}{data.b}` would make the same path
    from the values `1` and `23` as from `12` and `3`.
    """
    if template.is_one_placeholder or not template.placeholders:
        return None
    shape = "".join(part if isinstance(part, str) else "\0" for part in template.parts)
    scheme, separator, rest = shape.partition("://")
    place, slash, path = rest.partition("/")
    if not separator or not slash or "\0" in scheme + place:
        return "may have placeholders only in the path, after scheme://bucket/, or be one placeholder alone"
    if is_output and any(segment.count("\0") > 1 for segment in path.split("/")):
        return "may have one placeholder between two slashes"
    return None


def values_match(wanted: Mapping[str, Any], data: Mapping[str, Any]) -> bool:
    """Return whether the payload has exactly these values at these paths."""
    for path, value in wanted.items():
        found: object = data
        for key in path.split("."):
            found = found.get(key, _ABSENT) if isinstance(found, Mapping) else _ABSENT
        if type(found) is not type(value) or found != value:
            return False
    return True
