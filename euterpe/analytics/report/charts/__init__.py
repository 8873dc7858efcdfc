"""Charts as SVG: pure functions of the data and the width, without scripts, styles or references.

Colours are CSS classes that the stylesheet of the page (or of the picture) defines.
"""
