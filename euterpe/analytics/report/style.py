"""The stylesheet of the page: light, dark and print. A test checks the contrast of both palettes."""

# Each colour has a value for the light theme and a value for the dark theme.
PALETTE = {
    "paper": ("#ffffff", "#14161b"),
    "panel": ("#f5f6f9", "#1c1f27"),
    "ink": ("#1b1f2a", "#e8eaf0"),
    "soft": ("#5a6172", "#a3aabb"),
    "grid": ("#dfe2ea", "#2e333f"),
    "accent": ("#6a3fc4", "#b99cf5"),
    "succeeded": ("#1c8a6b", "#3fbf97"),
    "failed": ("#c46a00", "#f0a040"),
    "dead_letter": ("#b3203f", "#f0718a"),
    "canceled": ("#6f7789", "#8d95a8"),
    "in_flight": ("#3568d4", "#7ba4f7"),
    "work": ("#6a3fc4", "#a887ee"),
    "waste": ("#c46a00", "#f0a040"),
    "bad": ("#b3203f", "#f0718a"),
    "warning": ("#8f5200", "#f0a040"),
    "good": ("#17735a", "#3fbf97"),
    "plain": ("#5a6172", "#a3aabb"),
    "tail": ("#a58fdc", "#6b55a8"),
    "body": ("#8460d0", "#8f70d6"),
    "middle": ("#45218f", "#d9c9ff"),
    "slots": ("#5a6172", "#a3aabb"),
}
# The names of the colours that fill bars, dots and the keys of legends.
FILLS = (
    *("succeeded", "failed", "dead_letter", "canceled", "in_flight", "work", "waste", "bad"),
    *("tail", "body", "middle", "slots"),
)

_CHART = """
svg text { fill: var(--ink); font: 12px system-ui, "DejaVu Sans", sans-serif; paint-order: stroke;
  stroke: var(--paper); stroke-width: 3px; stroke-linejoin: round }
svg text.soft { fill: var(--soft) }
svg text.strong { font-weight: 600 }
svg .grid { stroke: var(--grid) }
svg .mark { stroke: var(--ink); stroke-width: 2 }
svg .hover { fill: transparent }
svg .line { fill: none; stroke-width: 2.5 }
svg .line.tail, svg .line.body { stroke-width: 6 }
"""
_PAGE = """
* { box-sizing: border-box }
html { scroll-behavior: smooth; -webkit-text-size-adjust: 100% }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, "DejaVu Sans", sans-serif }
main, header, footer { max-width: 56rem; margin: auto; padding: 0 1.5rem }
header { padding-top: 2.5rem }
h1 { margin: 0; font-size: clamp(1.6rem, 5vw, 2.2rem); line-height: 1.2 }
h2 { margin: 0 0 .4rem; font-size: 1.35rem; line-height: 1.3 }
section { margin-top: 3rem; padding-top: 1.5rem; border-top: 1px solid var(--grid) }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; margin: 1.5rem 0 0; padding: 0; list-style: none }
a { color: var(--accent) }
.scope, .note, .tile small, footer, figcaption { color: var(--soft) }
.answer { font-size: 1.05rem; margin: 0 0 1.2rem; max-width: 46rem }
.nothing { padding: 1rem; border-radius: .5rem; background: var(--panel); color: var(--soft) }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .8rem;
  margin: 1.8rem 0 0 }
.tile { padding: .9rem 1rem; border-radius: .6rem; background: var(--panel) }
.tile dt { color: var(--soft); font-size: .85rem }
.tile dd { margin: 0 }
.tile b { display: block; font-size: 1.45rem; font-weight: 650; line-height: 1.3; white-space: nowrap }
.tile small { display: block; font-size: .8rem; line-height: 1.35 }
.findings { margin: 1rem 0 0; padding: 0; list-style: none }
.findings li { margin: .7rem 0; padding: .1rem 0 .1rem .9rem; border-left: 4px solid var(--plain) }
.findings li.bad { border-color: var(--bad) }
.findings li.warning { border-color: var(--warning) }
.findings li.good { border-color: var(--good) }
.findings a { color: inherit; text-decoration-color: var(--soft) }
.badge { display: inline-block; padding: 0 .5em; border: 1px solid currentColor; border-radius: 1em;
  font-size: .8rem; font-weight: 600; white-space: nowrap }
.bad.badge { color: var(--bad) }
.warning.badge { color: var(--warning) }
.good.badge { color: var(--good) }
.plain.badge { color: var(--plain) }
figure { margin: 1.4rem 0 }
figcaption strong { color: var(--ink) }
figure svg { display: block; width: 100%; height: auto; margin-top: .6rem }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; margin: .4rem 0 0; padding: 0; list-style: none;
  font-size: .85rem }
.key { display: inline-block; width: .8em; height: .8em; margin-right: .4em; border-radius: .2em }
.scroll { margin: 1.4rem 0; overflow-x: auto }
table { width: 100%; border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums }
caption { padding-bottom: .4rem; font-weight: 600; text-align: left }
th, td { padding: .35rem .7rem .35rem 0; border-bottom: 1px solid var(--grid); text-align: left;
  vertical-align: top }
thead th { color: var(--soft); font-weight: 500; vertical-align: bottom }
tbody th { font-weight: 500; overflow-wrap: anywhere; min-width: 7rem }
tfoot th, tfoot td { border-bottom: 0; font-weight: 650 }
th.number, td.number { padding: .35rem 0 .35rem .7rem; text-align: right }
td.number { white-space: nowrap }
details { font-size: .9rem }
summary { color: var(--accent); cursor: pointer }
details dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .6rem 0 }
details dt { font-family: ui-monospace, monospace; font-size: .85em }
details dd { margin: 0; color: var(--soft) }
footer { margin-top: 3rem; padding-bottom: 3rem; font-size: .85rem }
.narrow { display: none }
@media screen and (max-width: 44rem) {
  main, header, footer { padding: 0 1rem }
  header { padding-top: 1.5rem }
  figure svg.wide { display: none }
  figure svg.narrow { display: block }
  details dl { display: block }
  details dd { margin-bottom: .5rem }
}
@media print {
  body { font-size: 11pt }
  main, header, footer { max-width: none; padding: 0 }
  nav, details { display: none }
  section { margin-top: 1.5rem }
  h2, caption, figcaption { break-after: avoid }
  figure, tr, .tile, .findings li { break-inside: avoid }
  .scroll { overflow: visible }
  table { font-size: 8pt }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact }
}
"""


def colours(*, night: bool) -> str:
    return "; ".join(f"--{name}: {pair[night]}" for name, pair in PALETTE.items())


def chart() -> str:
    """Return the styles that a chart needs, in the page or in a separate file."""
    fills = (
        f"svg .{name} {{ fill: var(--{name}) }}\n.line.{name} {{ stroke: var(--{name}) }}" for name in FILLS
    )
    return "\n".join((*fills, _CHART))


def _themes() -> str:
    """Return both palettes. `class=dark` on the root selects the dark palette on every system."""
    by_day, by_night = colours(night=False), colours(night=True)
    return (
        f":root {{ color-scheme: light dark; {by_day} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {by_night} }} }}\n"
        f"@media screen {{ :root.dark {{ color-scheme: dark; {by_night} }} }}\n"
    )


_KEYS = "\n".join(f".key.{name} {{ background: var(--{name}) }}" for name in FILLS)

STYLE = _themes() + chart() + _KEYS + _PAGE
