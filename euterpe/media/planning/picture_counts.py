"""Let ffmpeg log each picture that it gives to an encoder, so that the pictures of a file can be counted."""

from collections.abc import Iterator

# The folder of the logs. It begins with a dot, so it is never the name of an output.
COUNTS = ".pictures"


def count_log(path: str) -> str:
    """Return the path of the log of the encode for a file, or for a rendition (`folder/name`).

    The log has a line for each picture: 3 MB for two hours of 60 pictures per second.
    """
    return f"{COUNTS}/{path.replace('/', ',')}"


def count_arguments(path: str) -> Iterator[str]:
    """Yield the arguments that write the log, for an output with one video stream."""
    yield from ("-stats_enc_pre:v", f"file:{count_log(path)}", "-stats_enc_pre_fmt:v", "{n}")
