"""The ffmpeg filters of a command, in one graph: changes of pictures, a cascade of scales, and sound."""

from collections.abc import Iterator

from euterpe.media.planning.colour import BT709, is_wide
from euterpe.media.planning.timeline import BLACK_FPS
from euterpe.media.planning.tree import (
    Best,
    Command,
    Every,
    Moment,
    Picture,
    PictureColour,
    Scale,
    Sound,
    Still,
)

_MATRICES = {
    0: "gbr",
    1: "bt709",
    4: "fcc",
    5: "bt470bg",
    6: "smpte170m",
    7: "smpte240m",
    9: "bt2020nc",
    10: "bt2020c",
}
_PRIMARIES = {1: "bt709", 4: "bt470m", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "film", 9: "bt2020"}
_TRANSFERS = {
    **{1: "bt709", 4: "bt470m", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "linear"},
    **{13: "iec61966-2-1", 14: "bt2020-10", 15: "bt2020-12", 16: "smpte2084", 18: "arib-std-b67"},
}
# The tone curve is the identity up to this share of the white of 203 nits, and bends above it, so that an SDR
# colour that was put into HDR comes back as it was.
_KNEE = 0.8
_WHITE_NITS = 203


def graph(command: Command) -> str:
    """Return the filter graph.

    It ends in `[v0]` for the first video track, `[a0]` for the first audio track, and `[t0]` for the first
    product, if that is a still.
    """
    chains = [*_picture_chains(command), *_scale_chains(command), *_sound_chains(command)]
    return ";".join(chains)


def _picture_chains(command: Command) -> Iterator[str]:
    for place, picture in enumerate(command.pictures):
        roots = [n for n, one in enumerate(command.scales) if one.picture == place and one.parent is None]
        largest = command.scales[roots[0]]
        chain = ",".join(_changes(picture, largest))
        outs = "".join(f"[s{n}in]" for n in roots)
        split = f",split={len(roots)}" if len(roots) > 1 else ""
        yield f"[{picture.input}:{picture.stream}]{chain}{split}{outs}"


def _changes(picture: Picture, largest: Scale) -> Iterator[str]:
    yield _times(picture)
    if picture.deinterlacing != "none":
        yield f"bwdif=mode=send_{picture.deinterlacing}:deint=interlaced"
    if picture.fps is not None:
        yield f"fps={picture.fps:g}"
    yield from _picks(picture)
    if picture.cut is not None:
        one = picture.cut
        yield f"crop={one.width}:{one.height}:{one.left}:{one.top}:exact=1"
    yield _tags(picture.given)
    if _is_mapped(picture):
        yield from _mapped(picture, largest)


def _times(picture: Picture) -> str:
    moved = f"PTS-({picture.shift:.6f})/TB" if picture.shift else "PTS"
    if not picture.lead:
        return f"setpts={moved}"
    # `tpad` moves the pictures by a rounded number of its own pictures. The last filter gives the black
    # pictures and the others their own times.
    count = max(1, round(picture.lead * BLACK_FPS))
    black = f"N*{picture.lead:.6f}/{count}/TB"
    others = f"st(0,if(eq(N,{count}),PTS,ld(0)));PTS-ld(0)+{picture.lead:.6f}/TB"
    return f"setpts=PTS-STARTPTS,tpad=start={count},setpts='if(lt(N,{count}),{black},{others})'"


def _picks(picture: Picture) -> Iterator[str]:
    match picture.pick:
        case Moment(lead=lead):
            # The last picture is repeated for a moment after the end.
            yield f"tpad=stop=-1:stop_mode=clone,select='gte(t,-{lead:.6f})',trim=end_frame=1"
        case Every(seconds=seconds, count=count):
            first = f"isnan(prev_selected_t)+gt(floor(t/{seconds}),floor(prev_selected_t/{seconds}))"
            # An interval without a picture repeats the picture before it.
            yield f"select='{first}',fps=1/{seconds}:start_time=0:round=down:eof_action=pass"
            yield f"tpad=stop=-1:stop_mode=clone,trim=end_frame={count}"
        case Best(count=count):
            yield f"thumbnail={count},trim=end_frame=1"


def _mapped(picture: Picture, largest: Scale) -> Iterator[str]:
    """Yield the mapping of HDR or BT.2020 to BT.709, at the largest size that is needed.

    It works on floating point: for two seconds at 1080 lines it takes as long as their encode.
    """
    size = f"w={largest.width}:h={largest.height}"
    if picture.tone_map is None:
        yield f"zscale={size}:p=bt709:t=bt709:m=bt709:r=tv:agamma=0,format=yuv420p"
        return
    # With the default `agamma=1` the curve of HLG works on each channel alone: green becomes (0,196,40).
    yield f"zscale={size}:t=linear:npl={_WHITE_NITS}:agamma=0,format=gbrpf32le,zscale=p=bt709:agamma=0"
    yield f"tonemap=mobius:param={_KNEE}:desat=0:peak={picture.tone_map.peak:g}"
    yield "zscale=t=bt709:m=bt709:r=tv:agamma=0,format=yuv420p"
    # The curve ends slightly above white.
    yield "limiter=min=16:max=235:planes=1,limiter=min=16:max=240:planes=6"


def _is_mapped(picture: Picture) -> bool:
    return picture.tone_map is not None or (is_wide(picture.given) and not is_wide(picture.colour))


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
        ends = [*videos, *stills]
        chain = ",".join(_sized(picture, scale))
        outs = [f"[s{n}in]" for n in children]
        if children:
            yield f"[s{place}in]{chain},split={len(children) + 1}{''.join(outs)}[s{place}]"
            head = f"[s{place}]"
        else:
            head = f"[s{place}in]{chain},"
        last = ",".join(_finished(picture, scale, list(stills.values())))
        split = f",split={len(ends)}" if len(ends) > 1 else ""
        yield f"{head}{last}{split}{''.join(ends)}"


def _sized(picture: Picture, scale: Scale) -> Iterator[str]:
    size = f"scale={scale.width}:{scale.height}"
    if scale.parent is None:
        before = BT709 if _is_mapped(picture) else picture.given
        after = picture.colour
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


def _sound_chains(command: Command) -> Iterator[str]:
    for place, sound in enumerate(command.sounds):
        ends = [f"[a{n}]" for n, one in enumerate(command.audios) if one.sound == place]
        split = f",asplit={len(ends)}" if len(ends) > 1 else ""
        yield f"[{sound.input}:{sound.stream}]{','.join(_sounds(sound))}{split}{''.join(ends)}"


def _sounds(sound: Sound) -> Iterator[str]:
    if sound.shift:
        yield f"asetpts=PTS-({sound.shift:.6f})/TB"
    # Gaps of more than 20 ms are filled or cut, smaller errors are stretched away, and the sound begins at 0.
    yield f"aresample={sound.rate}:async=200:min_comp=0.002:min_hard_comp=0.02:first_pts=0"
    if sound.layout != "keep":
        yield f"aformat=channel_layouts={sound.layout}"


def _tags(colour: PictureColour) -> str:
    primaries, transfer = _PRIMARIES.get(colour.primaries, "bt709"), _TRANSFERS.get(colour.transfer, "bt709")
    matrix = _MATRICES.get(colour.matrix, "bt709")
    names = f"color_primaries={primaries}:color_trc={transfer}:colorspace={matrix}"
    return f"setparams=range={_range(colour)}:{names}"


def _matrix(colour: PictureColour) -> str:
    return {0: "auto", 9: "bt2020", 10: "bt2020"}.get(colour.matrix, _MATRICES.get(colour.matrix, "bt709"))


def _range(colour: PictureColour) -> str:
    return "pc" if colour.full_range else "tv"


def _pixel_format(picture: Picture) -> str:
    if picture.is_ten_bit:
        return "yuv420p10le"
    return "yuvj420p" if picture.colour.full_range else "yuv420p"
