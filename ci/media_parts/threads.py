"""Measure the cost of the options that make HEVC and AV1 independent of the number of threads."""

from __future__ import annotations

from ci.media_parts.films import film
from ci.media_parts.measuring import FFMPEG, Product, in_turns, output
from euterpe.bench.bare_ffmpeg import bare_command
from euterpe.bench.figures import Figure

_SECONDS, _ROUNDS = 8, 2
# With these options and a capped bit rate, the encoders write the same bytes for any number of threads.
_SAME_BYTES = {"hevc": ":const-vbv=1", "av1": ":lp=1"}


def measure(product: Product) -> list[Figure]:
    found = []
    source = film(720, _SECONDS)
    for codec, option in _SAME_BYTES.items():
        video = {"codec": codec, "crf": 28, "bitrate_kbps": 2000}
        planned = product.plan(source, [output(name="film", type="mp4", video=video, audio=None)])
        (command,) = planned.commands
        one = bare_command(planned, command, FFMPEG, str(source))
        many = tuple(word.replace(option, "") for word in one)
        assert one != many, f"{codec} has no option {option}"  # noqa: S101
        for ours, free in in_turns(_ROUNDS, lambda: product.run(one), lambda: product.run(many)):  # noqa: B023
            found += [
                Figure(
                    f"{codec} with {option[1:]}, compared with the same command without it",
                    "s",
                    ours.wall,
                    free.wall,
                ),
                Figure(f"{codec} with {option[1:]}, CPU", "CPU s", ours.cpu, free.cpu),
            ]
    return found
