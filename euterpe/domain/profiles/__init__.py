"""Profiles: ready-made lists of outputs, chosen by name. Each profile is a TOML file.

The built-in profiles are the files in the folder of this module. An operator may add a folder of further
profiles. Nothing is read when this module is imported: `built_in_profiles` reads the files of the package on
its first call, and the caller of `with_operator_profiles` reads the files of the operator.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import AfterValidator, ValidationError

from euterpe.domain.errors import EuterpeError
from euterpe.domain.field_errors import field_errors
from euterpe.domain.model import StrictModel
from euterpe.domain.outputs import OutputSpec, OutputSpecs, PictureOutput, encryptions
from euterpe.domain.text import NAME, printable

SUFFIX = ".toml"
# TOML has no null, so this word in a profile leaves out the picture or the sound of an output.
_NONE, _MAY_BE_NONE = "none", ("video", "audio")

ProfileName = Annotated[str, NAME]


@dataclass(frozen=True)
class Profile:
    """A named list of outputs. `reason` states its purpose, or why its numbers were chosen."""

    name: str
    description: str
    reason: str
    outputs: tuple[OutputSpec, ...]
    built_in: bool = True

    def document(self) -> dict[str, Any]:
        """Return the profile as JSON, with all settings of its outputs."""
        return {
            "name": self.name,
            "description": self.description,
            "reason": self.reason,
            "built_in": self.built_in,
            "outputs": [output.model_dump(mode="json") for output in self.outputs],
        }


Profiles = Mapping[str, Profile]


class InvalidProfiles(EuterpeError):
    """Raised for invalid profile files. `problems` has a line for each error in each file."""

    code = "invalid_profiles"

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def _check_secrets(outputs: tuple[OutputSpec, ...]) -> tuple[OutputSpec, ...]:
    # Every requester can read a profile, so it must contain neither the signature of a URL nor a key.
    if any(encryptions(outputs)):
        raise ValueError("must not have encryption, because its key is a secret and profiles are public")
    for output in outputs:
        watermark = output.watermark if isinstance(output, PictureOutput) else None
        if watermark is not None and "?" in watermark.source.url:
            raise ValueError("must not have a watermark with a signed URL, because profiles are public")
    return outputs


class _ProfileFile(StrictModel):
    description: Annotated[str, printable(200)]
    reason: Annotated[str, printable(300)]
    outputs: Annotated[OutputSpecs, AfterValidator(_check_secrets)]


@cache
def built_in_profiles() -> Profiles:
    """Return the profiles of the package by name. The first call reads their files."""
    found = [file for file in files(__name__).iterdir() if file.name.endswith(SUFFIX)]
    texts = {file.name: file.read_bytes() for file in sorted(found, key=lambda file: file.name)}
    profiles, problems = _parse_all(texts, built_in=True)
    if problems:
        raise InvalidProfiles(problems)
    return MappingProxyType(profiles)


def with_operator_profiles(texts: Mapping[str, bytes]) -> Profiles:
    """Return the built-in profiles and the profiles in an operator's files.

    `texts` maps file names to contents. Raise `InvalidProfiles` with every error in every file. A file with
    the name of a built-in profile is an error, because one name would mean different outputs in two
    installations.
    """
    built_in = built_in_profiles()
    own, problems = _parse_all(texts, built_in=False)
    shadowing = [file for file in texts if file.removesuffix(SUFFIX) in built_in]
    problems += (f"{file}: a built-in profile has this name" for file in shadowing)
    if problems:
        raise InvalidProfiles(problems)
    return MappingProxyType({**built_in, **own})


def _parse_all(texts: Mapping[str, bytes], *, built_in: bool) -> tuple[dict[str, Profile], list[str]]:
    """Return the valid profiles by name, and a line for each error in the other files."""
    profiles, problems = dict[str, Profile](), list[str]()
    for file, text in texts.items():
        try:
            profile = _parse(file, text, built_in=built_in)
        except InvalidProfiles as wrong:
            problems += (f"{file}: {problem}" for problem in wrong.problems)
        else:
            profiles[profile.name] = profile
    return profiles, problems


def _parse(file: str, text: bytes, *, built_in: bool) -> Profile:
    name = file.removesuffix(SUFFIX)
    problems = [] if _is_name(name) else ["the file name before .toml must be 1 to 64 of a-z, 0-9, . _ -"]
    try:
        document = _with_nulls(tomllib.loads(text.decode()))
        read = _ProfileFile.model_validate(document)
    except ValidationError as invalid:
        problems += (f"{'.'.join(map(str, e.loc))}: {e.msg}" for e in field_errors(invalid, document))
    except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, or nested too deep
        problems.append(f"is not TOML: {error}")
    if problems:
        raise InvalidProfiles(problems)
    return Profile(name, read.description, read.reason, read.outputs, built_in)


def _is_name(text: str) -> bool:
    try:
        NAME(text)
    except ValueError:
        return False
    return True


def _with_nulls(document: dict[str, Any]) -> dict[str, Any]:
    outputs = document.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        for field in _MAY_BE_NONE:
            if isinstance(output, dict) and output.get(field) == _NONE:
                output[field] = None
    return document
