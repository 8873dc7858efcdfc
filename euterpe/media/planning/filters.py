"""The ffmpeg filters of a command, in one graph: changes of pictures, a cascade of scales, and sound."""

from collections.abc import Iterator

from euterpe.media.planning.colour import BT709, is_mapped
from euterpe.media.planning.overlays import overlay_filter, watermark_chains
from euterpe.media.planning.picture import JITTER_PICTURES
from euterpe.media.planning.quality import needed_pictures
from euterpe.media.planning.sound_filters import sound_chains
from euterpe.media.planning.timeline import BLACK_FPS
from euterpe.media.planning.tree import (
    Best,
    Command,
    Every,
    Input,
    Moment,
    Picture,
    PictureColour,
    Scale,
    Still,
    VideoTrack,
)
from euterpe.media.source.colour import MATRICES, PRIMARIES, TRANSFERS

# Leave out a picture whose time is not after the time of the previous picture. With two pictures at one time,
# the muxers of MP4 and of segments failed ("Non-monotonic DTS"). Screen recorders make such films.
_LATER_PICTURES = "select='isnan(prev_selected_pts)+gt(pts,prev_selected_pts)'"
# The filter `scale` fails for pictures whose tags name a matrix that is not in `_SCALE_MATRICES`.
_RGB, _SCALE_MATRICES = 0, frozenset({0, 1, 4, 5, 6, 7, 9})
# So set a matrix that `scale` knows before it changes the size or the pixel format of such pictures. The
# matrix of the values stays unchanged, because both sides of `scale` then have the same tag.
_KNOWN_MATRIX = "setparams=colorspace=bt709,"
# Pixel formats that `zscale` reads.
_PLANAR = "|".join(
    f"{kind}{depth}" for kind in ("yuv420p", "yuv422p", "yuv444p") for depth in ("", "10le", "12le", "16le")
)
_TURNS = {90: "transpose=clock", 180: "hflip,vflip", 270: "transpose=cclock"}
# The tone curve is linear up to this share of the white level (203 nits), and compresses above it. An SDR
# colour that was converted to HDR is therefore restored.
_KNEE = 0.8
_WHITE_NITS = 203
_HDR_METADATA = ("MASTERING_DISPLAY_METADATA", "CONTENT_LIGHT_LEVEL")


def graph(command: Command) -> str:
    """Return the filter graph.

    The graph ends in `[v0]` for the first video track, `[r0]` for the same pictures if their quality is
    measured, `[a0]` for the first audio track, and `[t0]` for the first product, if this product is a still.
    """
    pictures = [*_picture_chains(command), *_scale_chains(command)]
    chains = [*pictures, *watermark_chains(command), *sound_chains(command)]
    return ";".join(chains)


def metadata_graphs(command: Command) -> Iterator[str]:
    """Yield a separate graph for each video track that gets its HDR metadata from its pictures.

    ffmpeg passes such metadata only to the first output of a graph.
    """
    for place, video in enumerate(command.videos):
        if (label := video_label(video, place)) != f"[v{place}]":
            yield f"[v{place}]null{label}"


def video_label(video: VideoTrack, place: int) -> str:
    """Return the label of the pictures to encode.

    Pictures from a separate graph have the label `[hN]`. x265 needs no such graph, because it gets the HDR
    metadata as parameters.
    """
    return f"[h{place}]" if video.hdr is not None and video.codec != "hevc" else f"[v{place}]"


def _picture_chains(command: Command) -> Iterator[str]:
    for place, picture in enumerate(command.pictures):
        roots = [n for n, one in enumerate(command.scales) if one.picture == place and one.parent is None]
        largest = command.scales[roots[0]]
        chain = ",".join(_changes(picture, command.inputs[picture.input], largest))
        outs = "".join(f"[s{n}in]" for n in roots)
        split = f",split={len(roots)}" if len(roots) > 1 else ""
        yield f"{_decoded(picture)}{chain}{split}{outs}"


def _decoded(picture: Picture) -> str:
    """Return the beginning of a chain: the pictures of an input, or of several inputs one after the other."""
    if (joined := picture.joined) is None:
        return f"[{picture.input}:{picture.stream}]"
    places = range(picture.input, picture.input + joined.count)
    # Scale all pictures to one size, because `concat` fails if the size of the pictures changes.
    known = "" if picture.given.matrix == _RGB else _KNOWN_MATRIX
    same = f"{known}setpts=PTS-STARTPTS,scale={joined.width}:{joined.height},setsar=1"
    parts = "".join(f"[{place}:{picture.stream}]{same}[j{place}];" for place in places)
    return f"{parts}{''.join(f'[j{place}]' for place in places)}concat=n={joined.count},"


def _changes(picture: Picture, source: Input, largest: Scale) -> Iterator[str]:
    if picture.given.matrix not in _SCALE_MATRICES:
        yield f"{_KNOWN_MATRIX}scale,format={_PLANAR}"
    yield _LATER_PICTURES if picture.most_fps is None else _without_bursts(picture.most_fps)
    yield _times(picture)
    yield from _part(source)
    if picture.deinterlacing != "none":
        yield f"bwdif=mode=send_{picture.deinterlacing}:deint=interlaced"
    if picture.fps is not None:
        # By default, a film that is shorter than half the duration of an output picture would become empty.
        yield f"fps={picture.fps:g}:eof_action=pass"
    yield from _picks(picture)
    if picture.cut is not None:
        one = picture.cut
        yield f"crop={one.width}:{one.height}:{one.left}:{one.top}:exact=1"
    if picture.turn:
        yield _TURNS[picture.turn]
    yield _tags(picture.given)
    if _is_mapped(picture):
        yield from _mapped(picture, largest)


def _without_bursts(most_fps: float) -> str:
    """Return the filter that leaves out pictures, so that no part of the film has a rate above `most_fps`.

    Register 0 has the time at which the next picture would be due at this rate (the generic cell rate
    algorithm). A picture that is early by at most `JITTER_PICTURES` picture durations is kept, so that jitter
    loses no picture.
    """
    early = f"{JITTER_PICTURES / most_fps:.6f}"
    kept = f"isnan(prev_selected_pts)+gt(pts,prev_selected_pts)*gte(t,ld(0)-{early})"
    due = f"if(isnan(prev_selected_pts),t,max(t,ld(0)))+{1 / most_fps:.9f}"
    return f"select='if({kept},1+isnan(st(0,{due})))'"  # a picture is left out if the value is 0


def _times(picture: Picture) -> str:
    # Without `round`, ffmpeg cuts off the fraction of a tick. The clock of Theora has one tick for each
    # picture, so without `round` the first two pictures got the same time.
    moved = f"round(PTS-({picture.shift:.6f})/TB)" if picture.shift else "PTS"
    if not picture.lead:
        return f"setpts={moved}"
    # `tpad` delays the pictures by a whole number of black pictures, so the delay is not exactly `lead`. The
    # last `setpts` sets the exact times of all pictures.
    count = max(1, round(picture.lead * BLACK_FPS))
    black = f"N*{picture.lead:.6f}/{count}/TB"
    others = f"st(0,if(eq(N,{count}),PTS,ld(0)));PTS-ld(0)+{picture.lead:.6f}/TB"
    return f"setpts=PTS-STARTPTS,tpad=start={count},setpts='if(lt(N,{count}),{black},{others})'"


def _part(source: Input) -> Iterator[str]:
    """Yield the filter that keeps only the requested part. After an exact seek, no such filter is needed."""
    if source.lead_in is not None and not source.keeps_lead:
        length = "" if source.seconds is None else f":duration={source.seconds:.6f}"
        yield f"trim=start=0{length}"


def _picks(picture: Picture) -> Iterator[str]:
    match picture.pick:
        case Moment(lead=lead):
            # If the moment is after the last picture, use the last picture.
            yield f"tpad=stop=-1:stop_mode=clone,select='gte(t,-{lead:.6f})',trim=end_frame=1"
        case Every(seconds=seconds, count=count):
            first = f"isnan(prev_selected_t)+gt(floor(t/{seconds}),floor(prev_selected_t/{seconds}))"
            # For an interval without a picture, use the previous picture.
            yield f"select='{first}',fps=1/{seconds}:start_time=0:round=down:eof_action=pass"
            yield f"tpad=stop=-1:stop_mode=clone,trim=end_frame={count}"
        case Best(count=count):
            yield f"thumbnail={count},trim=end_frame=1"


def _mapped(picture: Picture, largest: Scale) -> Iterator[str]:
    """Yield the mapping of HDR, of BT.2020 or of rare colours, at the largest size that is needed.

    The result is BT.709, or BT.2020 if HDR is kept. The filters compute in floating point: the mapping of two
    seconds at 1080 lines takes as long as their encode. If the result is SDR, remove the HDR metadata,
    because they would tell a player that the pictures are HDR.
    """
    size = f"w={largest.width}:h={largest.height}"
    if picture.is_ten_bit:
        yield f"zscale={size}:p=bt2020:m=bt2020nc:r=tv:agamma=0,format=yuv420p10le"
        return
    yield from (f"sidedata=mode=delete:type={kind}" for kind in _HDR_METADATA)
    if picture.tone_map is None:
        yield f"zscale={size}:p=bt709:t=bt709:m=bt709:r=tv:agamma=0,format=yuv420p"
        return
    # Set `agamma=0`. The default `agamma=1` applies the HLG curve to each channel separately, and made
    # (0,196,40) of green.
    yield f"zscale={size}:t=linear:npl={_WHITE_NITS}:agamma=0,format=gbrpf32le,zscale=p=bt709:agamma=0"
    yield f"tonemap=mobius:param={_KNEE}:desat=0:peak={picture.tone_map.peak:g}"
    yield "zscale=t=bt709:m=bt709:r=tv:agamma=0,format=yuv420p"
    # The highest value of the curve is slightly above white, so limit the result.
    yield "limiter=min=16:max=235:planes=1,limiter=min=16:max=240:planes=6"


def _is_mapped(picture: Picture) -> bool:
    return picture.tone_map is not None or is_mapped(picture.given, picture.colour)


def _colour_before_scale(picture: Picture) -> PictureColour:
    """Return the colour after the mapping, or the colour of the source if there is no mapping."""
    if not _is_mapped(picture):
        return picture.given
    return picture.colour if picture.is_ten_bit else BT709


def _scale_chains(command: Command) -> Iterator[str]:
    for place, scale in enumerate(command.scales):
        picture = command.pictures[scale.picture]
        children = [n for n, one in enumerate(command.scales) if one.parent == place]
        videos = [f"[v{n}]" for n, one in enumerate(command.videos) if one.scale == place]
        stills = {
            f"[t{n}]": one
            for n, one in enumerate(command.products)
            if isinstance(one, Still) and one.scale == place
        }
        measured = {
            n: one.quality for n, one in enumerate(command.videos) if one.scale == place and one.quality
        }
        ends = [*videos, *(f"[q{n}]" for n in measured), *stills]
        chain = ",".join(_sized(picture, scale))
        outs = [f"[s{n}in]" for n in children]
        if children:
            yield f"[s{place}in]{chain},split={len(children) + 1}{''.join(outs)}[s{place}]"
            head = f"[s{place}]"
        else:
            head = f"[s{place}in]{chain},"
        if scale.overlay is not None:
            # Give both inputs of the filter the same tags, so that ffmpeg inserts no conversion of its own.
            yield f"{head}{_tags(picture.colour)}[p{place}]"
            head = f"[p{place}][w{place}]{overlay_filter(picture, scale.overlay)},"
        last = ",".join(_finished(picture, scale, list(stills.values())))
        split = f",split={len(ends)}" if len(ends) > 1 else ""
        yield f"{head}{last}{split}{''.join(ends)}"
        # If the pictures have a frame rate, ffmpeg rounds their times when it passes them to another graph.
        # So remove the frame rate (`strip_fps`).
        for n, check in measured.items():
            yield f"[q{n}]{needed_pictures(check)}setpts=PTS:strip_fps=1[r{n}]"


def _sized(picture: Picture, scale: Scale) -> Iterator[str]:
    size = f"scale={scale.width}:{scale.height}"
    if scale.parent is None:
        before, after = _colour_before_scale(picture), picture.colour
        size += f":in_color_matrix={_matrix(before)}:out_color_matrix={_matrix(after)}"
        size += f":in_range={_range(before)}:out_range={_range(after)}"
    yield f"{size},setsar=1,format={_pixel_format(picture)}"


def _finished(picture: Picture, scale: Scale, stills: list[Still]) -> Iterator[str]:
    if scale.padded_width is not None:
        yield f"pad={scale.padded_width}:{scale.padded_height}:-1:-1"
    for still in stills:
        if still.columns * still.rows > 1:
            yield f"tile={still.columns}x{still.rows}"
        if still.format == "gif":
            yield "split[g][p];[p]palettegen=stats_mode=diff[q];[g][q]paletteuse=dither=bayer"
    yield _tags(picture.colour)


def _tags(colour: PictureColour) -> str:
    primaries, transfer = PRIMARIES[colour.primaries], TRANSFERS[colour.transfer]
    names = f"color_primaries={primaries}:color_trc={transfer}:colorspace={MATRICES[colour.matrix]}"
    return f"setparams=range={_range(colour)}:{names}"


def _matrix(colour: PictureColour) -> str:
    """Return the name of the matrix for the filter `scale`."""
    return {0: "auto", 9: "bt2020"}.get(colour.matrix, MATRICES[colour.matrix])


def _range(colour: PictureColour) -> str:
    return "pc" if colour.full_range else "tv"


def _pixel_format(picture: Picture) -> str:
    if picture.is_ten_bit:
        return "yuv420p10le"
    return "yuvj420p" if picture.colour.full_range else "yuv420p"
