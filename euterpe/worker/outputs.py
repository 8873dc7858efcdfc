"""What a job shows of its outputs once they are all there."""

from collections.abc import Sequence
from typing import Any

from euterpe.media.verify import MadeFile
from euterpe.storage.transfer import Stored


def output_documents(made: Sequence[MadeFile], stored: Sequence[Stored]) -> list[dict[str, Any]]:
    """One for each output, about the file that one opens: the last of it, which refers to the others."""
    documents: dict[str, dict[str, Any]] = {}
    for file, object_ in zip(made, stored, strict=True):
        before = documents.get(file.output, {"size_bytes": 0, "files": 0})
        documents[file.output] = {
            "name": file.output,
            "url": object_.url,
            "content_type": file.content_type,
            "size_bytes": before["size_bytes"] + object_.size_bytes,
            "sha256": object_.sha256,
            "duration_seconds": file.duration_seconds,
            "width": file.width,
            "height": file.height,
            "files": before["files"] + 1,
        }
    return list(documents.values())
