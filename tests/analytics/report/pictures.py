"""Draw the pictures of docs/analytics.md, which are charts of the report of the sample month.

`python -m tests.analytics.report.pictures` draws them again.
"""

import re
from pathlib import Path

from euterpe.analytics.marts import MARTS
from euterpe.analytics.report import style
from tests.analytics.report.sample import month

FOLDER = Path(__file__).parents[3] / "docs" / "analytics"
_OPENING = r'(?P<opening><svg [^>]*viewBox="0 0 (?P<width>\d+) (?P<height>\d+)"[^>]*class="wide")>'
_CHART = re.compile(_OPENING + "(?P<content>.*?)</svg>", re.DOTALL)


def pictures() -> dict[str, str]:
    """Return the first chart of each section that has a chart, by file name."""
    results = month()
    found = (
        (section.id, _CHART.search(section.evidence))
        for section in (mart.section(results) for mart in MARTS if mart.section)
    )
    return {f"{name}.svg": _alone(chart) for name, chart in found if chart}


def _alone(chart: re.Match[str]) -> str:
    """Return the chart as an SVG file with its own background and dark mode."""
    by_day, by_night = (_coloured(night=night) for night in (False, True))
    return (
        f'{chart["opening"]} width="{chart["width"]}" height="{chart["height"]}">'
        f"<style>{by_day} @media (prefers-color-scheme: dark) {{ {by_night} }}</style>"
        f'<rect width="100%" height="100%" class="paper"></rect>{chart["content"]}</svg>\n'
    )


def _coloured(*, night: bool) -> str:
    """Return the style with CSS variables replaced, because some SVG viewers do not support them."""
    rules = f"{' '.join(style.chart().split())} .paper {{ fill: var(--paper) }}"
    return re.sub(r"var\(--(\w+)\)", lambda name: style.PALETTE[name[1]][night], rules)


def main() -> None:
    for name, picture in pictures().items():
        (FOLDER / name).write_text(picture)


if __name__ == "__main__":
    main()
