"""Plan a job: return the commands that make its outputs from a source, and what they leave out. No I/O."""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import assert_never

from euterpe.domain.codecs import codecs_for
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.outputs import (
    FilmOutput,
    ImageOutput,
    OutputSpec,
    PreviewOutput,
    SegmentedOutput,
    SoundOutput,
    SpriteOutput,
)
from euterpe.media.errors import MediaError
from euterpe.media.planning.adaptive import Segmented, add_adaptive
from euterpe.media.planning.builder import CommandBuilder
from euterpe.media.planning.files import Film, Sound, add_film, add_sound
from euterpe.media.planning.sound import Chosen, chosen_sounds, sound_warnings
from euterpe.media.planning.stills import image, preview, refuse_too_many, sprite
from euterpe.media.planning.subtitles import chosen_subtitles, subtitle_warnings
from euterpe.media.planning.timeline import part_input, timeline, whole_input
from euterpe.media.planning.tracks import Material, VideoSettings, video_warnings
from euterpe.media.planning.tree import (
    Command,
    File,
    Input,
    Package,
    Plan,
    PlannedText,
    PlanWarning,
    Rendition,
    Still,
)
from euterpe.media.planning.truncation import refuse_truncated
from euterpe.media.source.media_info import MediaInfo, StreamInfo

Tracked = Film | Sound | Segmented
Pictured = ImageOutput | SpriteOutput | PreviewOutput


def plan(outputs: Sequence[OutputSpec], info: MediaInfo, *, threads: int) -> Plan:
    """Return the plan that makes `outputs` from the source that `info` describes.

    `threads` is the number of decoder threads; it does not change the decoded pictures. An optional output
    that cannot be made becomes a warning. Raise `MediaError` for any other output that cannot be made.
    """
    refuse_truncated(info)
    refuse_too_many((output for output in outputs if isinstance(output, SpriteOutput)), info)
    planner = _Planner(info, outputs)
    for output in outputs:
        planner.add(output)
    made = Plan(
        container=info.container,
        decoder_threads=threads,
        commands=(*planner.tracked_commands(), *planner.commands),
        packages=tuple(planner.packages),
        texts=tuple(planner.texts),
        outputs=tuple(output.name for output in outputs if output.name not in planner.skipped),
        warnings=tuple(planner.warnings),
    )
    _refuse_a_clash(made)
    if not made.outputs:
        reason = made.warnings[0].message if made.warnings else "there are none"
        raise MediaError(ErrorCode.OUTPUT_UNSUPPORTED, f"no output can be made: {reason}")
    return made


class _Planner:
    """The plan under construction. Outputs with tracks share one command, so a stream is decoded once."""

    def __init__(self, info: MediaInfo, outputs: Sequence[OutputSpec]) -> None:
        self.info, self.outputs = info, outputs
        self.commands: list[Command] = []
        self.packages: list[Package] = []
        self.texts: list[PlannedText] = []
        self.warnings: list[PlanWarning] = []
        self.skipped: set[str] = set()
        self._shared = CommandBuilder()
        self._optional: list[CommandBuilder] = []
        self._used = self._used_streams()

    def tracked_commands(self) -> Iterator[Command]:
        shared = [(self._shared, False)] if self._shared.products else []
        for builder, is_optional in (*shared, *((one, True) for one in self._optional)):
            if (first := builder.first_passes()) is not None:
                first.outputs = builder.outputs
                yield first.build(is_optional=is_optional)
            yield builder.build(is_optional=is_optional)

    def add(self, output: OutputSpec) -> None:
        """Add an output. Skip an optional output that cannot be made."""
        try:
            self._add(output)
        except MediaError as error:
            if not output.optional:
                raise
            self.skipped.add(output.name)
            self.warnings.append(
                PlanWarning("output_skipped", output.name, f"the output is left out: {error}")
            )

    def _add(self, output: OutputSpec) -> None:
        _refuse_a_late_start(output, self.info)
        match output:
            case ImageOutput():
                self.commands += image(output, self.info, self._video(output))
            case SpriteOutput():
                command, text = sprite(output, self.info, self._video(output))
                self.commands.append(command)
                self.texts += [text] if text else []
            case PreviewOutput():
                self.commands.append(preview(output, self.info, self._video(output)))
            case _:
                self._add_tracked(output)

    def _add_tracked(self, output: Tracked) -> None:
        # An optional output gets a command of its own, so that its failure does not fail the others.
        builder = CommandBuilder() if output.optional else self._shared
        sounds = chosen_sounds(output.audio, self.info, _default_sound(output))
        video = self._video(output) if _has_pictures(output) else None
        own = [*([video] if video else []), *(one.stream for one in sounds)]
        source = self._input(output)
        used = own if output.optional else self._used[source]
        times = timeline(self.info, source, used, own)
        # A part may lie before or after the sound of a track, which then would be an empty file.
        sounds = tuple(one for one in sounds if source.start is None or times.has(one.stream))
        material = Material(video, sounds, builder.input(source), times)
        builder.read(self._seconds(output))
        match output:
            case SegmentedOutput():
                texts = chosen_subtitles(output.subtitles, self.info)
                made = add_adaptive(builder, output, self._video(output), material, texts)
                self.packages.append(made.package)
                self.warnings += made.warnings
            case FilmOutput():
                add_film(builder, output, material)
            case SoundOutput():
                add_sound(builder, output, material)
            case _:
                assert_never(output)
        builder.outputs.append(output.name)
        if builder is not self._shared:
            self._optional.append(builder)
        self._warn(output, video, sounds)

    def _warn(self, output: Tracked, video: StreamInfo | None, sounds: Sequence[Chosen]) -> None:
        self.warnings += sound_warnings(output.audio, sounds, self.info, output.name)
        if video is not None and not isinstance(output, SoundOutput) and output.video is not None:
            settings = VideoSettings(output.video.codec, fps=output.video.fps, hdr=output.video.hdr)
            self.warnings += video_warnings(video, settings, output.name)
            wanted = output.subtitles if isinstance(output, SegmentedOutput) else None
            self.warnings += subtitle_warnings(wanted, self.info, output.name)

    def _video(self, output: OutputSpec) -> StreamInfo:
        if (video := self.info.video) is None:
            raise _no_pictures(output)
        return video

    def _input(self, output: OutputSpec) -> Input:
        if output.start is None and output.end is None:
            return whole_input()
        return part_input(self.info, output.start, output.end)

    def _seconds(self, output: OutputSpec) -> float | None:
        """Return how much of the source the output needs."""
        if (length := self.info.duration_seconds) is None:
            return None
        return max(0.0, min(output.end or length, length) - (output.start or 0.0))

    def _used_streams(self) -> dict[Input, list[StreamInfo]]:
        """Return the streams that the shared command reads from each input."""
        used: dict[Input, list[StreamInfo]] = {}
        for output in self.outputs:
            if isinstance(output, Pictured) or output.optional:
                continue
            streams = used.setdefault(self._input(output), [])
            if _has_pictures(output) and self.info.video:
                streams.append(self.info.video)
            streams += [one.stream for one in chosen_sounds(output.audio, self.info, _default_sound(output))]
        return used


def _has_pictures(output: Tracked) -> bool:
    return not isinstance(output, SoundOutput) and output.video is not None


def _default_sound(output: Tracked) -> str:
    return codecs_for("audio", output.type)[0].name


def _no_pictures(output: OutputSpec) -> MediaError:
    return MediaError(
        ErrorCode.NO_VIDEO_STREAM, f"output {output.name} has pictures, and the source has none"
    )


def _refuse_a_late_start(output: OutputSpec, info: MediaInfo) -> None:
    """Raise for an output that would begin after the end of the source."""
    length = info.duration_seconds
    if info.video is not None and (isinstance(output, Pictured) or _has_pictures(output)):
        length = info.video.duration_seconds or length
    if output.start is not None and length is not None and output.start >= length:
        raise MediaError(
            ErrorCode.OUTPUT_UNSUPPORTED,
            f"output {output.name} would start at {output.start:g} s, and the source has only {length:.2f} s",
        )


def _refuse_a_clash(made: Plan) -> None:
    """Raise when a file and a folder would share a name, such as HLS output `a.mp4` and MP4 output `a`."""
    paths, folders = set[str](), set[str]()
    for command in made.commands:
        for product in command.products:
            match product:
                case Rendition():
                    folders.add(product.folder)
                case File() | Still():
                    paths.add(product.path)
    paths |= {text.path for text in made.texts}
    folders |= {str(PurePosixPath(path).parent) for path in paths}
    if both := sorted(folders & paths):
        raise MediaError(
            ErrorCode.OUTPUT_UNSUPPORTED, f"{both[0]} would be a file and a folder: rename an output"
        )
