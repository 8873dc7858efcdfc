"""`euterpe plan`: show the outputs that a job would make of a file on this machine, but do not make them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from euterpe.cli.commands import AsJson, command, importing
from euterpe.cli.job_request import outputs_of, read_spec
from euterpe.cli.output import json_document
from euterpe.cli.plan_view import show_plan
from euterpe.domain.outputs import OutputSpec
from euterpe.domain.spec import parse_spec, resolve_outputs
from euterpe.settings import load
from euterpe.wiring.profiles import load_profiles

# A spec needs URLs, but the plan does not depend on them.
_PLACES = {"source": {"url": "s3://bucket/source"}, "output": {"url": "s3://bucket/prefix/"}}


def register(app: typer.Typer) -> None:
    command(app, "plan", example="euterpe plan film.mov --profile adaptive-h264")(plan_file)


def plan_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A media file of this machine.")],
    *,
    profile: Annotated[str | None, typer.Option(metavar="PROFILE", help="Ready-made outputs.")] = None,
    output: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TYPE[,FIELD=VALUE]…",
            help="An output, like mp4,codec=hevc,height=720 or hls,ladder=1080,720 or JSON; repeatable.",
        ),
    ] = None,
    spec: Annotated[
        str | None,
        typer.Option(metavar="FILE|-", help="A JSON body of POST /transcode with the outputs."),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--tree", help="Print the whole plan as JSON: every command, filter and encode.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a job would make of FILE: tracks, sizes, what is copied or encoded, and what is left out.

    To plan a source that a service can read, use `euterpe submit … --dry-run`.
    """
    outputs = _outputs(profile, outputs_of(output), spec)
    with importing("service"):
        from euterpe.media.planning.documents import plan_document
        from euterpe.media.planning.overview import plan_overview
        from euterpe.media.planning.planner import plan
        from euterpe.media.planning.watermark import assumed_watermarks
        from euterpe.media.sandbox.sandbox import Sandbox
    with _source(file) as source, Sandbox(Path(os.devnull)) as sandbox:
        info = sandbox.probe(source.fileno())
    # The watermarks of a job are not on this machine, so plan with assumed facts.
    watermarks = assumed_watermarks(outputs)
    made = plan(outputs, info, threads=os.cpu_count() or 1, watermarks=watermarks)
    if whole:
        json_document(plan_document(made))
        return
    document = plan_overview(made, outputs, info)
    (json_document if as_json else show_plan)(document)


def _outputs(profile: str | None, given: Sequence[Any] | None, spec: str | None) -> tuple[OutputSpec, ...]:
    """Return the outputs that the options or the spec request. Raise `InvalidSpec` for invalid outputs."""
    body = {} if spec is None else read_spec(spec)[0]
    if profile is not None or given is not None:
        body = {"profile": profile, "outputs": given}
    wanted = {name: body[name] for name in ("profile", "outputs") if body.get(name) is not None}
    if len(wanted) != 1:
        raise typer.BadParameter("give one of --profile, --output and --spec")
    return resolve_outputs(parse_spec({**_PLACES, **wanted}, load_profiles(load())))


def _source(file: Path) -> BinaryIO:
    try:
        return file.open("rb")
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="FILE") from None
