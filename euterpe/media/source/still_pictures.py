"""Recognise still pictures by their first bytes.

Still pictures cannot be sources, because they have no duration.
"""

HEADER_BYTES = 12

_FIRST_BYTES = {b"\x89PNG\r\n\x1a\n": "PNG", b"\xff\xd8\xff": "JPEG", b"GIF8": "GIF", b"BM": "BMP"}
_TIFF = (b"II*\0", b"MM\0*")
# The brands of HEIF. ffmpeg's demuxer for HEIF returns each tile of a large picture as a stream, so a film
# would show only one tile.
_BRANDS = {b"avif": "AVIF", b"heic": "HEIC", b"heix": "HEIC", b"mif1": "HEIF"}


def still_picture(header: bytes) -> str | None:
    """Return the format of a still picture, or None if the file does not begin like a still picture."""
    if header[4:8] == b"ftyp":
        return _BRANDS.get(header[8:12])
    if header[:4] == b"RIFF" and header[8:12] == b"WEBP":
        return "WebP"
    if header[:4] in _TIFF:
        return "TIFF"
    return next((name for first, name in _FIRST_BYTES.items() if header.startswith(first)), None)
