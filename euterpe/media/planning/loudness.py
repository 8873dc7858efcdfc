"""Loudness by EBU R 128: measure each distinct sound once, and set one linear gain for it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from euterpe.domain.outputs import Loudness
from euterpe.media.planning.tree import (
    Command,
    File,
    Gain,
    LoudnessGoal,
    LoudnessMeasurement,
    Plan,
    PlanWarning,
    Rendition,
    Sound,
    output_of,
)

# Measuring two minutes of stereo takes 0.39 s of processor time. Weights are relative to an
# encode in full HD, which takes 67 s of processor time for two minutes of film.
_COST = 0.006
# The minimum sample rate for a measurement. A lower rate gives the same loudness, but a less exact true peak.
_LEAST_RATE = 48_000
# ffmpeg rounds its measurements to one decimal.
_ROUNDING_DB = 0.05
# A difference from the target up to this value causes no warning.
_UNHEARD_DB = 0.1


# At a constant bit rate, LAME lowers the level of the sound. Each pair of `_LAME_LOSSES` is the highest bit
# rate of a range in kbit/s, and the loss in this range in dB.
_MPEG1_RATE = 32_000
_LAME_LOSSES = ((176, 0.45), (208, 0.26), (240, 0.18))


@dataclass(frozen=True)
class MeasuredLoudness:
    """The integrated loudness in LUFS, and the highest true peak of all channels in dBTP.

    Both values are None for a sound that is silent or shorter than one measurement block of 0.4 s.
    """

    lufs: float | None
    true_peak: float | None


def loudness_goal(wanted: Loudness | None, codec: str, kbps: int | None, rate: int) -> LoudnessGoal | None:
    """Return the goal of a track with this codec, bit rate and sample rate."""
    if wanted is None:
        return None
    loss = _lame_loss(kbps, rate) if codec == "mp3" and kbps is not None else 0.0
    return LoudnessGoal("goal", wanted.target, wanted.true_peak, loss)


def _lame_loss(kbps: int, rate: int) -> float:
    if rate < _MPEG1_RATE:  # at these sample rates, MP3 has at most 160 kbit/s, so the first range applies
        return _LAME_LOSSES[0][1]
    return next((loss for most, loss in _LAME_LOSSES if kbps <= most), 0.0)


def with_loudness_measurements(plan: Plan, *, reads_all: bool) -> Plan:
    """Return the plan with one measurement for each distinct sound that has a goal.

    With `reads_all`, the measurement of a sound reads the same streams as the command that encodes the sound.
    MPEG-TS requires this, because ffmpeg counts the times of MPEG-TS from the earliest of the streams that it
    reads.
    """
    needed: dict[LoudnessMeasurement, list[tuple[Command, Sound]]] = {}
    for command in plan.commands:
        for sound in command.sounds:
            if isinstance(sound.gain, LoudnessGoal):
                needed.setdefault(_measurement(command, sound, reads_all), []).append((command, sound))
    places = {one: len(plan.measurements) + place for place, one in enumerate(needed)}

    def numbered(command: Command, sound: Sound, goal: LoudnessGoal) -> Sound:
        return replace(sound, gain=replace(goal, measurement=places[_measurement(command, sound, reads_all)]))

    measurements = (_weighed(one, users) for one, users in needed.items())
    return replace(_changed(plan, numbered), measurements=(*plan.measurements, *measurements))


def with_gains(plan: Plan, results: Mapping[int, MeasuredLoudness | None]) -> Plan:
    """Return the plan with gains in place of the goals, and a warning for each goal that is not reached.

    `results` has the result of each measurement, by its index in the plan. None means that the measurement
    failed. The outputs that need a failed measurement will not be made.
    """
    warnings = list[PlanWarning]()

    def settled(command: Command, sound: Sound, goal: LoudnessGoal) -> Sound:
        found = results[goal.measurement]
        if found is None:
            return replace(sound, gain=Gain("gain", 0.0, None))
        gain = _gain(goal, found)
        for output in _users(command, sound):
            warnings.extend(_warnings(sound, goal, gain, output))
        return replace(sound, gain=gain)

    made = _changed(plan, settled)
    return replace(made, warnings=(*plan.warnings, *dict.fromkeys(warnings)))


def _changed(plan: Plan, change: Callable[[Command, Sound, LoudnessGoal], Sound]) -> Plan:
    """Return the plan with `change` applied to each sound that has a goal."""
    return replace(
        plan,
        commands=tuple(
            replace(
                command,
                sounds=tuple(
                    change(command, sound, sound.gain) if isinstance(sound.gain, LoudnessGoal) else sound
                    for sound in command.sounds
                ),
            )
            for command in plan.commands
        ),
    )


def _measurement(command: Command, sound: Sound, reads_all: bool) -> LoudnessMeasurement:
    """Return the measurement of a sound.

    Leave out the fields that depend on the outputs, so that several outputs can share a measurement.
    """
    heard = replace(sound, input=0, rate=max(sound.rate, _LEAST_RATE), gain=None)
    also_read = tuple((0, stream) for stream in _read_with(command, sound)) if reads_all else ()
    return LoudnessMeasurement("loudness", 0.0, None, (command.inputs[sound.input],), heard, (), also_read)


def _read_with(command: Command, sound: Sound) -> list[int]:
    """Return the other streams that the command reads from the input of the sound."""
    streams = {one.stream for one in command.pictures if one.input == sound.input}
    streams |= {one.stream for one in command.sounds if one.input == sound.input}
    streams |= {one.stream for one in command.copies if one.input == sound.input}
    streams |= {stream for place, stream in command.also_read if place == sound.input}
    return sorted(streams - {sound.stream})


def _weighed(one: LoudnessMeasurement, users: list[tuple[Command, Sound]]) -> LoudnessMeasurement:
    outputs = dict.fromkeys(output for command, sound in users for output in _users(command, sound))
    known = [command.seconds for command, _ in users if command.seconds is not None]
    seconds = min([max(known, default=0.0), *([part] if (part := one.inputs[0].seconds) else [])])
    return replace(
        one,
        weight=round(_COST * (seconds or 1.0), 3),
        seconds=seconds or None,
        outputs=tuple(outputs),
        is_optional=all(command.is_optional for command, _ in users),
    )


def _users(command: Command, sound: Sound) -> Iterator[str]:
    """Yield the names of the outputs that encode the sound."""
    audios = {place for place, one in enumerate(command.audios) if command.sounds[one.sound] == sound}
    for product in command.products:
        match product:
            case File(path=path, tracks=tracks):
                name = output_of(path)
            case Rendition(folder=name, track=track):
                tracks = (track,)
            case _:
                continue
        if any(one.kind == "audio" and not one.is_copied and one.place in audios for one in tracks):
            yield name


def _gain(goal: LoudnessGoal, found: MeasuredLoudness) -> Gain:
    if found.lufs is None or found.true_peak is None:
        return Gain("gain", 0.0, None)
    most = goal.true_peak - found.true_peak - _ROUNDING_DB
    return Gain("gain", round(min(goal.target - found.lufs, most), 2), found.lufs, goal.encoder_loss)


def _warnings(sound: Sound, goal: LoudnessGoal, gain: Gain, output: str) -> Iterator[PlanWarning]:
    if gain.measured_lufs is None:
        yield PlanWarning(
            "loudness_unknown",
            output,
            f"sound track {sound.stream} is silent or too short to be measured: its volume is not changed",
        )
        return
    reached = gain.measured_lufs + gain.decibels
    if reached < goal.target - _UNHEARD_DB:
        yield PlanWarning(
            "loudness_limited",
            output,
            f"sound track {sound.stream} gets {reached:.1f} LUFS instead of {goal.target:g}: with a gain "
            f"above {gain.decibels:g} dB its true peak would exceed {goal.true_peak:g} dBTP",
        )
