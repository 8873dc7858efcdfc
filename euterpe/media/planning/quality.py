"""Measured quality: choose the metrics of an encode, and encode and measure with one command.

ffmpeg decodes the pictures that it has just encoded (a loopback decoder), and compares them with the input of
the encoder. So the source is decoded only once. For a film of 12 s with 720 lines, the encode took 4.4 s of
processor time. VMAF added 1.1 s in the same command, or 5.6 s as a measurement of the finished file.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from math import inf

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.outputs import AdaptiveVideo, Video
from euterpe.domain.outputs.quality import METRICS, MeasuredOutput, Metric
from euterpe.media.errors import MediaError
from euterpe.media.planning.picture import Size
from euterpe.media.planning.tree import (
    Command,
    Discard,
    File,
    MuxedTrack,
    PlanWarning,
    Product,
    QualityCheck,
    Rendition,
    Still,
    VideoTrack,
    VmafModel,
)

# The folder of the results. It begins with a dot, so it is never the name of an output.
LOGS = ".quality"
# VMAF is computed for every 3rd picture of a film of up to 10 s, for every 7th up to 30 s, for every 13th up
# to 120 s, and for every 29th picture of a longer film. These intervals are primes other than 2 and 5,
# because encoders make better pictures at intervals of 4, 5 or 8: measured on every 5th picture of a film
# encoded by x265, the VMAF score was 4.5 too high.
#
# The intervals were tested with a film of 126 s with many scenes, encoded by x264, x265 and SVT-AV1. In 95 %
# of the film's parts of 11 to 120 s, the mean of the measured pictures was within 0.8 of the mean of all
# pictures.
#
# With x264 at 720 lines and the intervals 7, 13 and 29, an encode with its measurement takes 1.46, 1.36 and
# 1.29 times the processor time of the encode alone. Even if almost no picture is measured, the encode with
# its measurement takes 1.23 times the processor time of the encode alone, because all pictures are decoded.
_INTERVALS = ((10.0, 3), (30.0, 7), (120.0, 13))
_LONGEST_INTERVAL = 29
# To measure a picture, VMAF also needs the picture before it and the picture after it (the motion feature).
_NEIGHBOURHOOD = 3
# The usual model of VMAF is for a screen of 1080 lines. For larger pictures there is a model for 2160 lines.
_MODEL: VmafModel = "vmaf_v0.6.1"
_LARGE_MODEL: VmafModel = "vmaf_4k_v0.6.1"
_LARGE_PIXELS = 2560 * 1440
# libvmaf scales the pictures down by 16 to compare them. libvmaf crashed at a side of 16 pixels, and worked
# at 18.
_LEAST_SIDE = 32


@dataclass(frozen=True)
class Wanted:
    """The metrics that a request asks for, the lowest accepted VMAF, and the target VMAF."""

    metrics: tuple[Metric, ...] = ()
    least_vmaf: float | None = None
    target: float | None = None


NOTHING = Wanted()


def wanted_quality(output: MeasuredOutput, video: Video | AdaptiveVideo) -> Wanted:
    """Return the measurements that the request asks for.

    `vmaf_min` and a target imply that VMAF is measured.
    """
    needs_vmaf = output.vmaf_min is not None or video.target is not None
    found = {*output.measure, *(["vmaf"] if needs_vmaf else [])}
    target = video.target.vmaf if video.target else None
    return Wanted(tuple(metric for metric in METRICS if metric in found), output.vmaf_min, target)


def quality_check(wanted: Wanted, size: Size, output: str, *, is_hdr: bool) -> QualityCheck | None:
    """Return the measurement of an encode of this size, or None if nothing can be measured.

    Raise if VMAF cannot be measured, but the request sets a minimum or a target for it.
    """
    metrics = tuple(metric for metric in wanted.metrics if _is_defined(metric, size, is_hdr=is_hdr))
    needs_vmaf = wanted.least_vmaf is not None or wanted.target is not None
    if needs_vmaf and "vmaf" not in metrics:
        raise MediaError(
            ErrorCode.OUTPUT_UNSUPPORTED,
            f"the VMAF of output {output} is not defined: it keeps HDR, or has a side below {_LEAST_SIDE}",
        )
    model = _LARGE_MODEL if size.pixels > _LARGE_PIXELS else _MODEL
    return QualityCheck(metrics, model, wanted.least_vmaf) if metrics else None


def _is_defined(metric: Metric, size: Size, *, is_hdr: bool) -> bool:
    # VMAF has no model for HDR. ffmpeg's XPSNR reads pictures of 10 bits with wrong line offsets, which made
    # the result wrong by -3 dB.
    return metric in ("psnr", "ssim") or not (is_hdr or (metric == "vmaf" and size.short < _LEAST_SIDE))


def quality_warnings(wanted: Wanted, videos: Iterable[VideoTrack], output: str) -> list[PlanWarning]:
    """Return a warning with the requested metrics that are not measured for some of these encodes."""
    measured = [set(one.quality.metrics if one.quality else ()) for one in videos]
    missing = [metric for metric in wanted.metrics if any(metric not in one for one in measured)]
    if not missing:
        return []
    names = " and ".join(metric.upper() for metric in missing)
    reason = f"not measured for pictures that keep HDR, or have a side below {_LEAST_SIDE}"
    return [PlanWarning("quality_not_measured", output, f"{names}: {reason}")]


def numbered(commands: Iterable[Command]) -> Iterator[Command]:
    """Yield the commands. Set the interval of each measurement, and a number that is unique in the plan."""
    numbers = count()

    def finished(command: Command, video: VideoTrack) -> VideoTrack:
        if video.quality is None:
            return video
        part = command.inputs[command.pictures[command.scales[video.scale].picture].input]
        known = [seconds for seconds in (command.seconds, part.seconds) if seconds is not None]
        interval = _interval(min(known, default=inf))
        return replace(video, quality=replace(video.quality, number=next(numbers), interval=interval))

    for command in commands:
        yield replace(command, videos=tuple(finished(command, video) for video in command.videos))


def _interval(seconds: float) -> int:
    return next((interval for most, interval in _INTERVALS if seconds <= most), _LONGEST_INTERVAL)


def needed_pictures(check: QualityCheck) -> str:
    """Return the filter that leaves out the pictures that no metric needs, or an empty text.

    VMAF needs three pictures for each measured picture. The filter finds these pictures by their numbers,
    which are the same before the encoder and after the decoder. The scores are the same as without this
    filter. The filter saves memory: ffmpeg does not keep the left-out pictures until their encoded versions
    have been decoded, and libvmaf does not copy them.
    """
    if check.metrics != ("vmaf",) or check.interval <= _NEIGHBOURHOOD:
        return ""
    return f"select='lt(mod(n+1,{check.interval}),{_NEIGHBOURHOOD})',"


def log_path(check: QualityCheck, metric: Metric) -> str:
    """Return the path of the results of a metric, relative to the folder of the outputs."""
    return f"{LOGS}/{check.number}-{metric}.log"


def comparison_arguments(command: Command) -> Iterator[str]:
    """Yield the arguments that decode each measured encode again, and compare it with the encoder's input."""
    for decoder, (place, stream, video, check) in enumerate(_measured(command)):
        # Use one thread, because each further thread of a decoder keeps more pictures in memory.
        yield from ("-threads", "1", "-dec", f"{place}:{stream}")
        yield from ("-filter_complex", ";".join(_comparison(check, f"[dec:{decoder}]", f"r{video}")))
        yield from ("-map", f"[r{video}end]", "-fps_mode", "passthrough", "-f", "null", "-")


def _measured(command: Command) -> Iterator[tuple[int, int, int, QualityCheck]]:
    """Yield (product, stream, encode, check) for each measured encode. The first three are indexes."""
    for place, product in enumerate(command.products):
        for stream, video in _encodes(product):
            if (check := command.videos[video].quality) is not None:
                yield place, stream, video, check


def _encodes(product: Product) -> Iterator[tuple[int, int]]:
    """Yield the index in the product, and the index in the command, of each video encode of a product."""
    match product:
        case File(tracks=tracks):
            yield from (
                (stream, one.place)
                for stream, one in enumerate(tracks)
                if one.kind == "video" and not one.is_copied
            )
        case Rendition(track=MuxedTrack(kind="video", place=place)) | Discard(video=place):
            yield 0, place
        case Rendition() | Still():
            return


def _comparison(check: QualityCheck, decoded: str, reference: str) -> Iterator[str]:
    """Yield the filters that compare decoded pictures with a reference, one metric after the other.

    Each filter outputs its first input unchanged. The reference is the first input of XPSNR, and the second
    input of the other filters.
    """
    if needed := needed_pictures(check):
        yield f"{decoded}{needed}null[{reference}needed]"
        decoded = f"[{reference}needed]"
    copies = [f"[{reference}copy{place}]" for place in range(len(check.metrics))]
    yield f"[{reference}]split={len(copies)}{''.join(copies)}"
    for place, metric in enumerate(check.metrics):
        inputs = (copies[place], decoded) if metric == "xpsnr" else (decoded, copies[place])
        decoded = f"[{reference}end]" if place == len(copies) - 1 else f"[{reference}to{place}]"
        yield f"{''.join(inputs)}{_filter(check, metric)}{decoded}"


def _filter(check: QualityCheck, metric: Metric) -> str:
    log = log_path(check, metric)
    if metric != "vmaf":
        return f"{metric}=stats_file={log}"
    # `needed_pictures` keeps three pictures for each measured picture, so every third of the kept pictures is
    # measured.
    interval = _NEIGHBOURHOOD if needed_pictures(check) else check.interval
    # Give libvmaf no threads of its own, because it queues pictures for them without a limit (Netflix/vmaf
    # issue 1587).
    return f"libvmaf=model=version={check.model}:n_subsample={interval}:log_fmt=csv:log_path={log}"
