"""The ffmpeg filters that lay watermarks over pictures."""

from collections.abc import Iterator

from euterpe.media.planning.tree import Command, Overlay, Picture, PictureColour

_SWSCALE_MATRICES = {1: "bt709", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 9: "bt2020"}
_PQ, _HLG, _WHITE_NITS = 16, 18, 203
# A watermark has one picture. The time of this picture is before every picture of the source, so that the
# filter lays the watermark over all pictures. The watermark has a time base of whole seconds, so that the
# filter keeps the time base of the source.
_ALWAYS = "settb=1,setpts=-1000000"
# The planes to merge: luma and alpha of the first picture, and chroma of the second picture.
_PLANES = "map0s=0:map0p=0:map1s=1:map1p=1:map2s=1:map2p=2:map3s=0:map3p=3"


def watermark_chains(command: Command) -> Iterator[str]:
    """Yield, for each watermark, a chain that reads it, and a chain for each of its sizes.

    If scale N of the command has an overlay, the chains for this overlay end in the label `[wN]`.
    """
    users: dict[int, list[int]] = {}
    for place, scale in enumerate(command.scales):
        if scale.overlay is not None:
            users.setdefault(scale.overlay.input, []).append(place)
    for source, places in users.items():
        overlays = {place: one for place in places if (one := command.scales[place].overlay) is not None}
        outs = "".join(f"[w{place}in]" for place in places)
        split = f",split={len(places)}" if len(places) > 1 else ""
        yield from _read(source, overlays[places[0]], f"{split}{outs}")
        for place, one in overlays.items():
            yield from _sized(place, one, command.pictures[command.scales[place].picture])


def overlay_filter(picture: Picture, one: Overlay) -> str:
    """Return the filter that lays the watermark (its second input) over the pictures (its first input)."""
    pixels = "yuv420p10" if picture.is_ten_bit else "yuv420"
    return f"overlay=x={one.left}:y={one.top}:eval=init:format={pixels}:alpha=straight"


def _read(source: int, one: Overlay, ending: str) -> Iterator[str]:
    """Yield the chains that read the watermark as RGB of 16 bits with premultiplied alpha.

    Scaling mixes neighbouring pixels. So without premultiplied alpha, the invisible colours of transparent
    pixels would become visible at the edges of the watermark.
    """
    given = one.given
    decoded = f"trim=end_frame=1,{_ALWAYS},scale=in_range={'pc' if given.full_range else 'tv'}:out_range=pc"
    if (matrix := _SWSCALE_MATRICES.get(given.matrix)) is not None:
        decoded += f":in_color_matrix={matrix}"
    premultiplied = f"premultiply=inplace=1{ending}"
    if one.alpha_stream is None:
        yield f"[{source}:{one.stream}]{decoded},format=gbrap16le,{premultiplied}"
        return
    alpha = f"trim=end_frame=1,{_ALWAYS},scale=in_range=pc:out_range=pc,format=gray"
    yield f"[{source}:{one.alpha_stream}]{alpha}[alpha{source}]"
    yield f"[{source}:{one.stream}]{decoded},format=gbrp[rgb{source}]"
    yield f"[rgb{source}][alpha{source}]alphamerge,format=gbrap16le,{premultiplied}"


def _sized(place: int, one: Overlay, picture: Picture) -> Iterator[str]:
    """Yield the chains that convert the watermark to the size of an overlay and to the picture's colour.

    The chroma for 4:2:0 comes from a copy of half the size, in which each pixel is weighted by its alpha.
    """
    deep = "p10le" if picture.is_ten_bit else "p"
    colours = _converted(one.given, picture)
    whole = f"scale={one.width}:{one.height},unpremultiply=inplace=1,colorchannelmixer=aa={one.opacity:g}"
    small = f"scale={one.width // 2}:{one.height // 2},unpremultiply=inplace=1"
    yield f"[w{place}in]split[y{place}in][c{place}in]"
    yield f"[y{place}in]{whole},{colours},format=yuva444{deep}[y{place}]"
    yield f"[c{place}in]{small},{colours},format=yuva444{deep}[c{place}]"
    yield f"[y{place}][c{place}]mergeplanes={_PLANES}:format=yuva420{deep}[w{place}]"


def _converted(given: PictureColour, picture: Picture) -> str:
    """Return the filter that converts RGB to the colour of the picture. In HDR, white becomes 203 nits.

    The transfer curves of sRGB and of SDR video are treated as equal, because players show both curves alike.
    """
    made = picture.colour
    is_hdr = made.transfer in (_PQ, _HLG)
    curve = given.transfer if is_hdr else made.transfer
    levels = "full" if made.full_range else "limited"
    colour = f"p={made.primaries}:t={made.transfer}:m={made.matrix}:r={levels}"
    nits = f":npl={_WHITE_NITS}" if is_hdr else ""
    return f"zscale=pin={given.primaries}:tin={curve}:min=0:rin=full:{colour}:agamma=0{nits}"
