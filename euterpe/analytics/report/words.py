"""Formatting of numbers, durations, money and dates for people. An unknown value is shown as a dash."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta

EXACT_BELOW = 10_000
UNKNOWN = "\N{EN DASH}"
_THOUSANDS = ("", "k", "M", "G", "T")
_BYTES = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def count(value: float | None) -> str:
    """Format a count: `987`, `2,864`, `12 k`, `34 M`. Whole numbers below 10,000 are exact."""
    if value is not None and abs(value) < EXACT_BELOW and float(value).is_integer():
        return f"{value:,.0f}"
    return UNKNOWN if value is None else _scaled(value, 1000, _THOUSANDS)


def exact(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def quantity(number: float, thing: str) -> str:
    """Format a count with its noun: `1 job`, `1,200 jobs`."""
    return f"{count(number)} {thing}{'' if number == 1 else 's'}"


def size(value: float | None) -> str:
    return UNKNOWN if value is None else _scaled(value, 1024, _BYTES)


def _scaled(value: float, base: int, units: Sequence[str]) -> str:
    last = len(units) - 1
    step = 0
    while step < last and abs(value) >= base - 0.5:  # a value of at least `base` - 0.5 rounds up to `base`
        value, step = value / base, step + 1
    whole = step == 0 and float(value).is_integer()
    shown = f"{value:.0f}" if whole or abs(value) >= 99.95 else _short(value)
    return f"{shown} {units[step]}".rstrip()


def duration(seconds: float | None) -> str:
    """Format a duration in at most two units: `340 ms`, `4.2 s`, `3 min 20 s`, `3 h 20 min`, `2 d 4 h`."""
    if seconds is None:
        return UNKNOWN
    if 0 < seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else "< 1 ms"
    if seconds < 59.5:
        return f"{_short(seconds)} s" if seconds < 9.95 else f"{seconds:.0f} s"
    for unit, small, part, most in (("min", "s", 1, 60), ("h", "min", 60, 24)):
        large, rest = divmod(round(seconds / part), 60)
        if large < most:
            return _two(large, unit, rest, small)
    days, hours = divmod(round(seconds / 3_600), 24)
    return _two(days, "d", hours, "h")


def _two(large: int, unit: str, rest: int, small: str) -> str:
    return f"{large} {unit} {rest} {small}" if rest else f"{large} {unit}"


def duration_ms(milliseconds: float | None) -> str:
    return duration(None if milliseconds is None else milliseconds / 1000)


def percent(share: float | None) -> str:
    """Format a share. Only exactly 1 is shown as 100 %, and only exactly 0 as 0 %."""
    if share is None:
        return UNKNOWN
    if 0 < share < 0.0005:
        return "< 0.1 %"
    if 0.9995 <= share < 1:
        return "> 99.9 %"
    return f"{_short(share * 100)} %"


def change(ratio: float) -> str:
    """Format a relative change with its sign: `+12 %`."""
    if abs(ratio) < 0.0005:
        return "0 %"
    return f"{ratio * 100:+.0f} %" if abs(ratio) >= 0.095 else f"{ratio * 100:+.1f} %"


def money(amount: float | None, currency: str) -> str:
    if amount is None:
        return UNKNOWN
    if 0 < amount < 0.01:
        return f"{currency} {amount:.2g}" if amount >= 0.0001 else f"< {currency} 0.0001"
    return f"{currency} {amount:,.2f}" if amount < 9_999.995 else f"{currency} {amount:,.0f}"


def factor(value: float | None) -> str:
    """Format a factor: `1.42×`."""
    if value is None:
        return UNKNOWN
    return f"{value:.2f}×" if value < 9.995 else f"{value:.1f}×" if value < 99.95 else f"{value:.0f}×"


def number(value: float | None) -> str:
    if value is None or abs(value) >= 1000:
        return count(value)
    return f"{value:.2g}" if abs(value) < 1 else _short(value)


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def chance(p: float | None) -> str:
    if p is None:
        return UNKNOWN
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.0995 else f"p = {p:.2f}"


def day(value: date | None) -> str:
    return UNKNOWN if value is None else f"{value.day} {value:%b %Y}"


def instant(value: datetime | None) -> str:
    return UNKNOWN if value is None else f"{day(value)} {value:%H:%M} UTC"


def span(length: timedelta) -> str:
    days = round(length / timedelta(days=1))
    return f"{days} days" if days > 1 else duration(length.total_seconds())


def listed(names: Sequence[str]) -> str:
    """Join names into a list: `a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
