"""Charts as SVG: pure functions of the data and the width. The SVG has no scripts, styles or references.

Colours are CSS classes that the stylesheet of the page (or of the picture) defines.
"""
