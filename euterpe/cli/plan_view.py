"""Show a plan on a terminal: the tracks of each output, the expected sizes, and the warnings."""

from collections.abc import Mapping
from typing import Any

from euterpe.cli.job_tables import picture, show_warnings
from euterpe.cli.output import note, out, table, title
from euterpe.domain.units import format_bytes, format_seconds

Document = Mapping[str, Any]


def show_plan(plan: Document) -> None:
    """Print a `PlanDocument`. The sizes are estimates."""
    for number, output in enumerate(plan["outputs"]):
        if number:
            out("")
        title(_heading(output))
        table(("kind", "codec", "how", "picture", "rate", "language"), map(_track, output["tracks"]))
    show_warnings(plan["warnings"])
    if not plan["is_exact"]:
        note("planned from the beginning and the end of the source: durations and sizes may differ")


def _heading(output: Document) -> str:
    size, seconds = output["expected_bytes"], output["duration_seconds"]
    told = [
        *([format_seconds(seconds)] if seconds is not None else []),
        *([f"about {format_bytes(size)}"] if size is not None else []),
        *([f"watermark at {mark}"] if (mark := output.get("watermark")) else []),
        *([f"encrypted ({method})"] if (method := output.get("encryption")) else []),
        *([f"target VMAF {vmaf:g}"] if (vmaf := output.get("target_vmaf")) else []),
        *(["size not known before the search for `target`"] if _is_searched(output) else []),
    ]
    return f"{output['name']}  {', '.join(told)}" if told else str(output["name"])


def _is_searched(output: Document) -> bool:
    """Return whether a search will choose the bit rate of the picture.

    In a plan, a picture that is encoded without a search always has a bit rate.
    """
    return any(
        (track["kind"], track["action"], track["bitrate"]) == ("video", "encode", None)
        for track in output["tracks"]
    )


def _track(track: Document) -> tuple[object, ...]:
    rate = track["bitrate"]
    return (
        track["kind"],
        track["codec"],
        track["action"],
        picture(track),
        f"{round(rate / 1000)} kbit/s" if rate is not None else "",
        track["language"] or "",
    )
