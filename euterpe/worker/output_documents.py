"""The `outputs` documents of a succeeded job: URLs, sizes, checksums and a bounded list of files."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from euterpe.media.encoding.quality import SCORES
from euterpe.media.encoding.verify import MadeFile
from euterpe.storage.transfer import Stored

# The store accepts 256 KiB of outputs per row. A libSQL server returns at most 10 MiB in a response. A
# response must have room for 15 rows with outputs, or for the 25 webhooks of one claim, each with the
# outputs. The list of files gets half of the 256 KiB. The list cannot contain all files of a long film: three
# hours have 2,700 segments of four seconds in each rendition.
MAX_FILES_BYTES = 128 * 1024


def output_documents(
    made: Sequence[MadeFile], stored: Sequence[Stored], *, max_files_bytes: int = MAX_FILES_BYTES
) -> list[dict[str, Any]]:
    """Return one document for each output.

    `url` and `sha256` describe the file that a player opens. This file is published last.
    `size_bytes` is the size of all files, and `file_count` is their number. `files` is the list of files, and
    the lists of all outputs together have at most `max_files_bytes`. If not all files fit, playlists take
    precedence over segments.
    """
    pairs: dict[str, list[tuple[MadeFile, Stored]]] = {}
    for file, object_ in zip(made, stored, strict=True):
        pairs.setdefault(file.output, []).append((file, object_))
    lists = _lists(pairs, max_files_bytes)
    return [_document(of_output, lists[name]) for name, of_output in pairs.items()]


def _lists(
    pairs: Mapping[str, Sequence[tuple[MadeFile, Stored]]], max_bytes: int
) -> dict[str, list[dict[str, Any]]]:
    """Divide `max_bytes` among the outputs. Space that a short list does not need goes to longer lists."""
    lists: dict[str, list[dict[str, Any]]] = {}
    for name in sorted(pairs, key=lambda name: len(pairs[name])):
        lists[name] = _listed(pairs[name], max_bytes // (len(pairs) - len(lists)))
        max_bytes -= sum(len(json.dumps(entry)) + 1 for entry in lists[name])
    return lists


def _document(pairs: Sequence[tuple[MadeFile, Stored]], files: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    file, object_ = pairs[-1]
    return {
        "name": file.output,
        "url": object_.url,
        "content_type": file.content_type,
        "size_bytes": sum(stored.size_bytes for _, stored in pairs),
        "sha256": object_.sha256,
        "duration_seconds": file.duration_seconds,
        "width": file.width,
        "height": file.height,
        "file_count": len(pairs),
        "files": files,
        "renditions": [vars(track) for track in file.tracks],
        "quality": _quality([track.quality for track in file.tracks if track.quality]),
    }


def _quality(measured: Sequence[Mapping[str, float]]) -> dict[str, float] | None:
    """Return the quality of an output. With several picture tracks, return the lowest value of each score."""
    if len(measured) <= 1:
        return dict(measured[0]) if measured else None
    scores = {name: [one[name] for one in measured if name in one] for name in SCORES}
    return {name: min(values) for name, values in scores.items() if values}


def _listed(pairs: Sequence[tuple[MadeFile, Stored]], max_bytes: int) -> list[dict[str, Any]]:
    """List the files in the order of publication.

    If not all files fit, leave out segments before other files, beginning with the last segment.
    """
    ranked = sorted(range(len(pairs)), key=lambda place: (pairs[place][0].is_part, place))
    listed: dict[int, dict[str, Any]] = {}
    taken = 0
    for place in ranked:
        file, stored = pairs[place]
        entry = {"path": file.name, "size_bytes": stored.size_bytes, "sha256": stored.sha256}
        taken += len(json.dumps(entry)) + 1
        if taken > max_bytes:
            break
        listed[place] = entry
    return [listed[place] for place in sorted(listed)]
