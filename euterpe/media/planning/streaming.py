"""Decide whether a plan can begin before the source is complete, with a first command that reads a pipe."""

from euterpe.media.planning.tree import Command, File, Input, Plan, Rendition

# The formats whose packets come in the same order from a pipe as from a file. ffmpeg reads Matroska, WAV,
# FLAC and Ogg from the first byte to the last. For MP4, `probe_beginning` checks the index. MPEG-TS is not in
# the list, because ffmpeg can lose packets that come before a late program table. Formats whose demuxer reads
# the end first are not in the list either.
STREAMED = ("mov", "matroska", "wav", "flac", "ogg")


def can_stream(plan: Plan) -> bool:
    """Return whether the first command reads its source once, from the beginning to the end."""
    if plan.container not in STREAMED or not plan.commands or plan.measurements:
        return False
    first = plan.commands[0]
    # A field that is not named here must have its default, because any other value can need more than one
    # pass over the source.
    known = Command(
        weight=first.weight,
        seconds=first.seconds,
        inputs=(Input(),),
        pictures=first.pictures,
        scales=first.scales,
        sounds=first.sounds,
        videos=first.videos,
        audios=first.audios,
        products=first.products,
        outputs=first.outputs,
    )
    return (
        first == known
        and all(video.pass_number is None for video in first.videos)
        and all(picture.pick is None for picture in first.pictures)
        and all(_is_linear(product) for product in first.products)
    )


def _is_linear(product: object) -> bool:
    # Some formats have tags after the last packet, which ffmpeg reads only from a file. The subtitles of a
    # film are read before its encode begins, and can be anywhere in the source.
    if isinstance(product, File):
        return not product.keeps_tags and not product.subtitles
    return isinstance(product, Rendition)
