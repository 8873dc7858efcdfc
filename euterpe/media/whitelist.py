"""Allow lists of containers and decoders for untrusted input, and limits on streams, pixels and memory.

The lists exclude formats that name other files (playlists, concat, image patterns), formats that draw text or
run scripts, and decoders that nobody needs, because an attacker can reach all code that the lists allow.
"""

from collections.abc import Mapping
from types import MappingProxyType

CONTAINERS = (
    "mov",
    "matroska",
    "mpegts",
    "mpeg",
    "avi",
    "flv",
    "asf",
    "ogg",
    "mxf",
    "wav",
    "w64",
    "aiff",
    "caf",
    "mp3",
    "aac",
    "flac",
)

_VIDEO = (
    "h264 hevc libdav1d libaom-av1 vp8 vp9 mpeg4 mpeg2video mpeg1video h263 h263p flv msmpeg4 msmpeg4v2 "
    "msmpeg4v1 wmv1 wmv2 wmv3 vc1 mjpeg prores dnxhd dvvideo ffv1 huffyuv ffvhuff utvideo cfhd qtrle "
    "rawvideo v210 theora svq1 svq3 vp6 vp6f png"
)
_AUDIO = (
    "aac aac_latm mp3float mp3 mp2float mp2 mp1float ac3 eac3 dca truehd mlp flac alac opus vorbis wmav1 "
    "wmav2 wmapro amrnb amrwb adpcm_ima_qt adpcm_ima_wav adpcm_ms adpcm_swf pcm_s16le pcm_s16be pcm_s24le "
    "pcm_s24be pcm_s32le pcm_s32be pcm_f32le pcm_f32be pcm_f64le pcm_f64be pcm_u8 pcm_s8 pcm_alaw pcm_mulaw "
    "pcm_bluray pcm_dvd speex nellymoser"
)
DECODERS = (*_VIDEO.split(), *_AUDIO.split())
# The decoders of text subtitles. Only the task that reads text subtitles uses these decoders.
TEXT_DECODERS = ("subrip", "srt", "ass", "ssa", "mov_text", "webvtt", "cc_dec")
TEXT_CODECS = (
    "subrip",
    "ass",
    "mov_text",
    "webvtt",
    "eia_608",
)  # the names of the formats; some formats have two decoders

# The decoder for each container of a single picture, such as a watermark. AVIF pictures have the container
# `mov`.
PICTURE_DECODERS: Mapping[str, str] = MappingProxyType(
    {"png_pipe": "png", "jpeg_pipe": "mjpeg", "webp_pipe": "webp", "gif": "gif", "mov": "libdav1d"}
)
# A watermark is decoded and scaled with 8 bytes for each pixel, so this limit is 128 MiB.
MAX_WATERMARK_PIXELS = 4096 * 4096

MAX_STREAMS = 32
MAX_PIXELS = 8192 * 4320
MAX_BLOCK_BYTES = 1 << 30

# The demuxer options for both ffmpeg and PyAV. `fd` is the only protocol, so that the demuxer can open no
# path and no URL.
DEMUXER_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "protocol_whitelist": "fd",
        "format_whitelist": ",".join(CONTAINERS),
        "codec_whitelist": ",".join(DECODERS),
        "max_streams": str(MAX_STREAMS),
        "max_pixels": str(MAX_PIXELS),
    }
)
PICTURE_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "protocol_whitelist": "fd",
        "format_whitelist": ",".join(PICTURE_DECODERS),
        "codec_whitelist": ",".join(PICTURE_DECODERS.values()),
        "max_streams": "4",
        "max_pixels": str(MAX_WATERMARK_PIXELS),
    }
)
