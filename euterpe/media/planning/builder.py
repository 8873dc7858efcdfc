"""Collect the nodes of one command, and arrange its scales as a cascade."""

from dataclasses import dataclass, field, replace
from typing import TypeVar

from euterpe.media.planning.picture import Size
from euterpe.media.planning.tree import (
    AudioTrack,
    Command,
    CopiedTrack,
    Discard,
    Input,
    Overlay,
    Picture,
    Product,
    Scale,
    Sound,
    Still,
    VideoTrack,
)

Node = TypeVar("Node")

# The processor time of an encode relative to H.264 at the same size, with the presets of the codec table.
_COST = {"h264": 1.0, "hevc": 3.0, "vp9": 5.0, "av1": 2.5}
_FULL_HD, _SOUND_COST, _COPY_COST, _STILL_COST = 1920 * 1080, 0.02, 0.005, 0.5


@dataclass
class CommandBuilder:
    """A command under construction. A method that adds a node returns the index of the node in its list."""

    seconds: float | None = None
    inputs: list[Input] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    scales: list[Scale] = field(default_factory=list)
    sounds: list[Sound] = field(default_factory=list)
    videos: list[VideoTrack] = field(default_factory=list)
    audios: list[AudioTrack] = field(default_factory=list)
    copies: list[CopiedTrack] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    also_read: list[tuple[int, int]] = field(default_factory=list)

    def read(self, seconds: float | None) -> None:
        """Record that an output needs this many seconds of the source. None means an unknown length."""
        known = 0.0 if self.seconds is None else self.seconds
        self.seconds = None if seconds is None else max(known, seconds)

    def input(self, node: Input) -> int:
        return _place(self.inputs, node)

    def picture(self, node: Picture) -> int:
        return _place(self.pictures, node)

    def scale(
        self, picture: int, size: Size, padded: Size | None = None, overlay: Overlay | None = None
    ) -> int:
        wide, tall = (None, None) if padded is None else (padded.width, padded.height)
        scale = Scale(picture, size.width, size.height, None, wide, tall, overlay)
        return _place(self.scales, scale)

    def sound(self, node: Sound) -> int:
        return _place(self.sounds, node)

    def video(self, node: VideoTrack) -> int:
        """Add an encode. An encode is never shared, because ffmpeg writes each encoded stream to one file."""
        self.videos.append(node)
        return len(self.videos) - 1

    def audio(self, node: AudioTrack) -> int:
        self.audios.append(node)
        return len(self.audios) - 1

    def copy(self, node: CopiedTrack) -> int:
        return _place(self.copies, node)

    def first_passes(self) -> "CommandBuilder | None":
        """Return the command with the first passes of all two-pass encodes, or None without such encodes."""
        first = CommandBuilder(seconds=self.seconds)
        for video in self.videos:
            if video.pass_number is None:
                continue
            scale = self.scales[video.scale]
            picture = self.pictures[scale.picture]
            moved = replace(picture, input=first.input(self.inputs[picture.input]))
            over = scale.overlay and replace(
                scale.overlay, input=first.input(self.inputs[scale.overlay.input])
            )
            scale = replace(scale, picture=first.picture(moved), overlay=over)
            place = _place(first.scales, scale)
            first.products.append(Discard("discard", first.video(_first_pass(video, place))))
        if not first.videos:
            return None
        read: list[Sound | CopiedTrack] = [*self.sounds, *self.copies]
        # ffmpeg counts times of MPEG-TS from the earliest stream that it reads, so both passes must read the
        # same streams.
        first.also_read = [
            (first.inputs.index(self.inputs[one.input]), one.stream)
            for one in read
            if self.inputs[one.input] in first.inputs
        ]
        return first

    def build(self, *, is_optional: bool = False) -> Command:
        """Return the command. Each scale is made from the next larger scale of the same picture."""
        order = sorted(range(len(self.scales)), key=lambda place: _rank(self.scales[place]))
        moved = {old: new for new, old in enumerate(order)}
        scales: list[Scale] = []
        for old in order:
            scales.append(replace(self.scales[old], parent=_parent(self.scales[old], scales)))
        return Command(
            weight=self._weight(),
            seconds=None if self.seconds is None else round(self.seconds, 6),
            inputs=tuple(self.inputs),
            pictures=tuple(self.pictures),
            scales=tuple(scales),
            sounds=tuple(self.sounds),
            videos=tuple(replace(one, scale=moved[one.scale]) for one in self.videos),
            audios=tuple(self.audios),
            copies=tuple(self.copies),
            products=tuple(
                replace(one, scale=moved[one.scale]) if isinstance(one, Still) else one
                for one in self.products
            ),
            outputs=tuple(dict.fromkeys(self.outputs)),
            also_read=tuple(dict.fromkeys(self.also_read)),
            is_optional=is_optional,
        )

    def _weight(self) -> float:
        """Return the expected work. The unit is the encode of one second of film in full HD to H.264."""
        seconds = self.seconds or 1.0
        pictures = sum(
            _COST.get(one.codec, 1.0)
            * self.scales[one.scale].width
            * self.scales[one.scale].height
            / _FULL_HD
            for one in self.videos
        )
        stills = sum(isinstance(one, Still) for one in self.products)
        sounds = _SOUND_COST * len(self.audios) + _COPY_COST * len(self.copies)
        return round(seconds * (pictures + sounds) + _STILL_COST * stills, 3)


def _first_pass(video: VideoTrack, scale: int) -> VideoTrack:
    return replace(video, scale=scale, pass_number=1, quality=None)


def _place(nodes: list[Node], node: Node) -> int:
    if node not in nodes:
        nodes.append(node)
    return nodes.index(node)


def _rank(scale: Scale) -> tuple[int, int]:
    return (scale.picture, -scale.width * scale.height)


def _parent(scale: Scale, larger: list[Scale]) -> int | None:
    """Return the index of the smallest scale in `larger` from which this scale can be made."""
    fits = [
        place
        for place, one in enumerate(larger)
        if one.picture == scale.picture and one.width >= scale.width and one.height >= scale.height
    ]
    return fits[-1] if fits else None
