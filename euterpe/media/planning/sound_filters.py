"""The ffmpeg filters of sound: times, sample rate, channels, volume, and the measurement of loudness."""

from collections.abc import Iterator

from euterpe.media.planning.tree import Command, Gain, Input, LoudnessGoal, Sound


def sound_chains(command: Command) -> Iterator[str]:
    """Yield a chain for each sound of a command. The chain of audio track N ends in the label `[aN]`."""
    for place, sound in enumerate(command.sounds):
        ends = [f"[a{n}]" for n, one in enumerate(command.audios) if one.sound == place]
        split = f",asplit={len(ends)}" if len(ends) > 1 else ""
        source = command.inputs[sound.input]
        prepared = _prepared(sound, source, is_float=sound.gain is not None)
        words = [*prepared, *_volume(sound), *_silence(sound)]
        yield f"[{sound.input}:{sound.stream}]{','.join(words)}{split}{''.join(ends)}"


def loudness_graph(sound: Sound, source: Input) -> str:
    """Return the graph that measures the loudness of a sound of this input. The graph ends in `[a0]`.

    The silence that is added before a late sound is left out, because EBU R 128 does not count silence.
    """
    words = [*_prepared(sound, source, is_float=True), "ebur128=peak=true:framelog=quiet"]
    return f"[{sound.input}:{sound.stream}]{','.join(words)}[a0]"


def _prepared(sound: Sound, source: Input, *, is_float: bool) -> Iterator[str]:
    if moved := sound.shift + sound.silent_seconds:
        yield f"asetpts=PTS-({moved:.6f})/TB"
    yield from _part(sound, source)
    # Begin at 0. Fill a gap or cut an overlap of more than 20 ms. Remove smaller errors of the times by
    # stretching the sound.
    yield f"aresample={sound.rate}:async=200:min_comp=0.002:min_hard_comp=0.02:first_pts=0"
    # ffmpeg makes a mix of integer samples quieter, so that the mix cannot exceed full scale. The gain must
    # apply to the same mix that was measured, so the measurement and the encode use floating point.
    formats = ["sample_fmts=fltp"] if is_float else []
    layouts = [f"channel_layouts={sound.layout}"] if sound.layout != "keep" else []
    if formats or layouts:
        yield f"aformat={':'.join([*formats, *layouts])}"


def _part(sound: Sound, source: Input) -> Iterator[str]:
    """Yield the filter that keeps only the part, if ffmpeg cannot seek exactly to the start of the part."""
    if source.lead_in is not None:
        end = "" if source.seconds is None else f":end={max(0.0, source.seconds - sound.silent_seconds):.6f}"
        yield f"atrim=start=0{end}"


def _silence(sound: Sound) -> Iterator[str]:
    """Yield the filter that adds silence before a late sound.

    The resampler would make all the silence as one frame, and would need 1,571 MiB of memory for an hour of
    silence. This filter makes small frames, and needs 49 MiB.
    """
    if sound.silent_seconds:
        yield f"adelay={sound.silent_seconds * sound.rate}S:all=1"


def _volume(sound: Sound) -> Iterator[str]:
    match sound.gain:
        case Gain(decibels=decibels, encoder_loss=loss):
            yield f"volume={decibels + loss:.2f}dB"
        case LoudnessGoal():
            raise ValueError("the plan has measurements: settle it before its commands run")
