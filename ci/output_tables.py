"""Generate the tables of docs/integrate.md: the profiles, and the fields of outputs with their defaults."""

import json
from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from euterpe.domain.outputs import (
    AdaptiveVideo,
    Audio,
    ImageOutput,
    Mp4Output,
    PictureOutput,
    PreviewOutput,
    Rung,
    SegmentedOutput,
    SpriteOutput,
    Video,
)
from euterpe.domain.profiles import built_in_profiles

_COMMON = tuple(name for name in PictureOutput.model_fields if name not in ("name", "type"))


def profiles() -> str:
    """Return a markdown table of the built-in profiles."""
    lines = ["| profile | what it makes | why |", "| --- | --- | --- |"]
    for profile in built_in_profiles().values():
        lines.append(f"| `{profile.name}` | {profile.description} | {profile.reason} |")
    return "\n".join([*lines, ""])


def common_fields() -> str:
    return _table(_rows(PictureOutput, only=_COMMON))


def adaptive_fields() -> str:
    rows = [*_rows(SegmentedOutput), *_rows(AdaptiveVideo, "video."), *_rows(Rung, "video.ladder[].")]
    return _table(rows)


def file_fields() -> str:
    return _table([*_rows(Mp4Output), *_rows(Video, "video.")])


def audio_fields() -> str:
    return _table(_rows(Audio, "audio."))


def picture_fields() -> str:
    """Return a markdown table of the fields of images, sprites and previews, by type."""
    models: dict[str, type[BaseModel]] = {
        "image": ImageOutput,
        "sprite": SpriteOutput,
        "preview": PreviewOutput,
    }
    return _table([row for kind, model in models.items() for row in _rows(model, f"{kind}: ")])


def _rows(
    model: type[BaseModel], before: str = "", only: Sequence[str] | None = None
) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the default and the meaning of each field of the model.

    With `only`, yield only these fields. Without `only`, leave out the fields that are common to all outputs.
    """
    common = ("name", "type", *_COMMON)
    for name, field in model.model_fields.items():
        if (name in only) if only is not None else (name not in common):
            yield f"{before}{field.alias or name}", _default(model, name), field.description or ""


def _default(model: type[BaseModel], name: str) -> str:
    field = model.model_fields[name]
    if name == "codec" and model in (Video, Audio):
        return "by the type"
    if field.is_required():
        return "required"
    return "see below" if isinstance(field.default, BaseModel) else f"`{json.dumps(field.default)}`"


def _table(rows: Sequence[tuple[str, str, str]] | Iterator[tuple[str, str, str]]) -> str:
    lines = ["| field | default | meaning |", "| --- | --- | --- |"]
    for name, default, meaning in rows:
        kind, _, field = name.rpartition(": ")
        shown = f"`{kind}`: `{field}`" if kind else f"`{field}`"
        lines.append(f"| {shown} | {default} | {meaning} |")
    return "\n".join([*lines, ""])
