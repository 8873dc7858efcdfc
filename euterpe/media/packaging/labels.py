"""Labels of audio and subtitle tracks for viewers: unique names, language tags, and the default."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from euterpe.media.packaging.languages import language_name, language_tag
from euterpe.media.packaging.rendition import PackagedRendition, SubtitleRendition

_LONGEST_NAME = 100
# Characters that a quoted string of a playlist or XML 1.0 does not allow: the quotation mark, control
# characters, halves of surrogate pairs, non-characters, and line separators.
_UNSAFE = re.compile('["\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]+')


@dataclass(frozen=True)
class Label:
    name: str  # unique among the labels of a group
    language: str | None  # in the form of BCP 47
    is_default: bool
    is_autoselect: bool  # whether players can choose the track automatically, by the viewer's language


def labels_of(group: Sequence[PackagedRendition]) -> tuple[Label, ...]:
    """Return a label for each rendition of one kind.

    Exactly one audio rendition is the default. Subtitles need no default.
    """
    if not group:
        return ()
    languages = [language_tag(rendition.language) for rendition in group]
    default = next((place for place, rendition in enumerate(group) if rendition.is_default), None)
    if default is None and not isinstance(group[0], SubtitleRendition):
        default = 0
    # For each language, only one rendition is marked for the automatic choice by players: the default
    # rendition if it has this language, or else the first rendition with this language.
    keys = [(language, is_forced(rendition)) for language, rendition in zip(languages, group, strict=True)]
    automatic = {key: place for place, key in reversed([*enumerate(keys)])}
    if default is not None:
        automatic[keys[default]] = default
    labels, names = list[Label](), set[str]()
    for place, (rendition, language) in enumerate(zip(group, languages, strict=True)):
        name = _unique(_name(rendition, language), names)
        names.add(name)
        labels.append(Label(name, language, place == default, automatic[keys[place]] == place))
    return tuple(labels)


def is_forced(rendition: PackagedRendition) -> bool:
    return isinstance(rendition, SubtitleRendition) and rendition.is_forced


def _name(rendition: PackagedRendition, language: str | None) -> str:
    if rendition.title is not None and (title := safe_line(rendition.title)):
        return title
    if language is not None:
        return language_name(language)
    return "Subtitles" if isinstance(rendition, SubtitleRendition) else "Audio"


def _unique(name: str, taken: set[str]) -> str:
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{name} {number}"
    return candidate


def safe_line(text: str) -> str:
    """Return a text from the source as one short line that needs no escapes in a playlist."""
    return " ".join(_UNSAFE.sub(" ", text).split())[:_LONGEST_NAME].strip()
