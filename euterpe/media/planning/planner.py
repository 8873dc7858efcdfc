"""Plan a job: choose the commands that make its outputs from a source, and the warnings. No I/O."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
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
from euterpe.media.planning.copying import with_copies
from euterpe.media.planning.files import Film, Sound, add_film, add_sound
from euterpe.media.planning.loudness import with_loudness_measurements
from euterpe.media.planning.quality import numbered, quality_warnings, wanted_quality
from euterpe.media.planning.search import with_searches
from euterpe.media.planning.sound import Chosen, chosen_sounds, sound_warnings
from euterpe.media.planning.stills import image, preview, refuse_too_many, sprite
from euterpe.media.planning.subtitles import chosen_subtitles, film_subtitles, subtitle_warnings
from euterpe.media.planning.timeline import part_input, timeline, whole_input
from euterpe.media.planning.tracks import Material, VideoSettings, dropped_pictures, video_warnings
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
from euterpe.media.planning.truncation import refuse_truncated, truncation_of
from euterpe.media.planning.watermark import (
    NO_WATERMARKS,
    ChosenWatermark,
    WatermarkFiles,
    chosen_watermark,
    watermark_files,
)
from euterpe.media.source.media_info import MediaInfo, StreamInfo

# Tolerate this difference between two times, because the probe rounds times to microseconds.
_ROUNDING_S = 0.000_002
Tracked = Film | Sound | Segmented
Pictured = ImageOutput | SpriteOutput | PreviewOutput


def plan(
    outputs: Sequence[OutputSpec],
    info: MediaInfo,
    *,
    threads: int,
    allow_truncated: bool = False,
    watermarks: WatermarkFiles = NO_WATERMARKS,
) -> Plan:
    """Return the plan that makes `outputs` from the source that `info` describes, with these watermarks.

    `threads` is the number of decoder threads. This number does not change the decoded pictures, unless the
    source is damaged. An optional output that cannot be made becomes a warning. With `allow_truncated`, a
    source that is cut off becomes a warning too. Raise `MediaError` for any other output that cannot be made.
    """
    if not allow_truncated:
        refuse_truncated(info)
    refuse_too_many((output for output in outputs if isinstance(output, SpriteOutput)), info)
    planner = _Planner(info, outputs, watermarks, allow_truncated=allow_truncated)
    for output in outputs:
        planner.add(output)
    made = Plan(
        container=info.container,
        # A decoder repairs a damaged picture with the data that its threads have decoded until then: 5
        # different numbers of threads made 5 different films.
        decoder_threads=1 if allow_truncated else threads,
        tolerates_damage=allow_truncated,
        commands=tuple(numbered((*planner.tracked_commands(), *planner.commands))),
        packages=tuple(planner.packages),
        texts=tuple(planner.texts),
        outputs=tuple(output.name for output in outputs if output.name not in planner.skipped),
        warnings=tuple(planner.warnings),
        watermarks=watermark_files(watermarks),
    )
    made = with_searches(with_loudness_measurements(made, reads_all=info.has_discontinuities), info)
    _refuse_a_clash(made)
    if not made.outputs:
        reason = made.warnings[0].message if made.warnings else "there are none"
        raise MediaError(ErrorCode.OUTPUT_UNSUPPORTED, f"no output can be made: {reason}")
    return made


class _Planner:
    """The plan under construction. Outputs with tracks share one command, so a stream is decoded once."""

    def __init__(
        self,
        info: MediaInfo,
        outputs: Sequence[OutputSpec],
        watermarks: WatermarkFiles,
        *,
        allow_truncated: bool = False,
    ) -> None:
        self.info, self.outputs, self._watermarks = info, outputs, watermarks
        self._allow_truncated = allow_truncated
        self.commands: list[Command] = []
        self.packages: list[Package] = []
        self.texts: list[PlannedText] = []
        self.warnings: list[PlanWarning] = [*_truncation_warnings(info)]
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
        watermark = chosen_watermark(output, self._watermarks)
        match output:
            case ImageOutput():
                self.commands += image(output, self.info, self._video(output), watermark)
            case SpriteOutput():
                command, text = sprite(output, self.info, self._video(output), watermark)
                self.commands.append(command)
                self.texts += [text] if text else []
            case PreviewOutput():
                self.commands.append(preview(output, self.info, self._video(output), watermark))
            case _:
                self._add_tracked(output, watermark)

    def _add_tracked(self, output: Tracked, watermark: ChosenWatermark | None) -> None:
        # An optional output gets a separate command, so that its failure does not affect the other outputs.
        builder = CommandBuilder() if output.optional else self._shared
        source = self._input(output)
        sounds = self._sounds(output, source)
        video = self._video(output) if _has_pictures(output) else None
        own = [*([video] if video else []), *(one.stream for one in sounds)]
        used = own if output.optional else self._used[source]
        times = timeline(self.info, source, used, own)
        if self._allow_truncated:  # a damaged source can end at any time
            times = replace(times, has_known_ends=False)
        material = Material(video, sounds, builder.input(source), times, watermark=watermark)
        builder.read(self._seconds(output))
        earlier = len(builder.videos)
        match output:
            case SegmentedOutput():
                texts = chosen_subtitles(output.subtitles, self.info)
                made = add_adaptive(builder, output, self._video(output), material, texts)
                self.packages.append(made.package)
                self.warnings += made.warnings
            case FilmOutput():
                subtitles = film_subtitles(output.name, output.subtitles, self.info, times, own)
                add_film(builder, output, self._with_copies(output, material), subtitles)
            case SoundOutput():
                add_sound(builder, output, self._with_copies(output, material))
            case _:
                assert_never(output)
        builder.outputs.append(output.name)
        if builder is not self._shared:
            self._optional.append(builder)
        self._warn(output, video, sounds)
        if not isinstance(output, SoundOutput) and output.video is not None:
            wanted = wanted_quality(output, output.video)
            self.warnings += quality_warnings(wanted, builder.videos[earlier:], output.name)

    def _with_copies(self, output: FilmOutput | SoundOutput, material: Material) -> Material:
        # Only a decoder detects and drops damage inside packets, so a damaged source is never copied.
        return material if self._allow_truncated else with_copies(output, self.info, material)

    def _warn(self, output: Tracked, video: StreamInfo | None, sounds: Sequence[Chosen]) -> None:
        self.warnings += sound_warnings(output.audio, sounds, self.info, output.name)
        self.warnings += dropped_pictures(self.info, video, output.name)
        if video is not None and not isinstance(output, SoundOutput) and output.video is not None:
            settings = VideoSettings(output.video.codec, fps=output.video.fps, hdr=output.video.hdr)
            self.warnings += video_warnings(video, settings, output.name)
        # Warn of missing subtitles if the output has pictures or requests subtitles. A film without pictures
        # can request subtitles too.
        if not isinstance(output, SoundOutput) and (output.video is not None or output.subtitles is not None):
            self.warnings += subtitle_warnings(output.subtitles, self.info, output.name)

    def _video(self, output: OutputSpec) -> StreamInfo:
        if (video := self.info.video) is None:
            raise _no_pictures(output)
        if video.lacks_base_layer:
            raise MediaError(
                ErrorCode.SOURCE_UNSUPPORTED,
                "the pictures are Dolby Vision without a base layer (profile 5): their colours are unknown",
            )
        return video

    def _input(self, output: OutputSpec) -> Input:
        if output.start is None and output.end is None:
            return whole_input()
        return part_input(self.info, output.start, output.end)

    def _sounds(self, output: Tracked, source: Input) -> tuple[Chosen, ...]:
        """Return the sounds of an output.

        Leave out a sound that has no data in the output's part of the source.
        """
        sounds = chosen_sounds(output.audio, self.info, _default_sound(output))
        if source.start is None:
            return sounds
        times = timeline(self.info, source, (), ())
        return tuple(one for one in sounds if times.has(one.stream))

    def _seconds(self, output: OutputSpec) -> float | None:
        """Return how many seconds of the source the output needs."""
        if (length := self.info.duration_seconds) is None:
            return None
        return max(0.0, min(output.end or length, length) - (output.start or 0.0))

    def _used_streams(self) -> dict[Input, list[StreamInfo]]:
        """Return the streams that the shared command reads from each input."""
        used: dict[Input, list[StreamInfo]] = {}
        for output in self.outputs:
            if isinstance(output, Pictured) or output.optional:
                continue
            source = self._input(output)
            streams = used.setdefault(source, [])
            if _has_pictures(output) and self.info.video:
                streams.append(self.info.video)
            streams += [one.stream for one in self._sounds(output, source)]
        return used


def _truncation_warnings(info: MediaInfo) -> Iterator[PlanWarning]:
    if (problem := truncation_of(info)) is not None:
        yield PlanWarning("source_truncated", None, problem)


def _has_pictures(output: Tracked) -> bool:
    return not isinstance(output, SoundOutput) and output.video is not None


def _default_sound(output: Tracked) -> str:
    return codecs_for("audio", output.type)[0].name


def _no_pictures(output: OutputSpec) -> MediaError:
    return MediaError(
        ErrorCode.NO_VIDEO_STREAM, f"output {output.name} has pictures, and the source has none"
    )


def _refuse_a_late_start(output: OutputSpec, info: MediaInfo) -> None:
    """Raise for an output that would begin after the end of the source, or after the last picture begins."""
    if output.start is None:
        return
    video = info.video if isinstance(output, Pictured) or _has_pictures(output) else None
    length = (video.duration_seconds if video else None) or info.duration_seconds
    if length is not None and output.start >= length:
        raise MediaError(
            ErrorCode.OUTPUT_UNSUPPORTED,
            f"output {output.name} would start at {output.start:g} s, and the source has only {length:.2f} s",
        )
    if video is None or video.latest_seconds is None or isinstance(output, ImageOutput):
        return
    begin = info.start_seconds + (part_input(info, output.start, None).start or 0.0)
    if begin > video.latest_seconds + _ROUNDING_S:
        raise MediaError(
            ErrorCode.OUTPUT_UNSUPPORTED,
            f"output {output.name} would start at {output.start:g} s, and no picture begins after that",
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
