"""Charts as SVG: pure functions of what they show and how wide they are. No script, no style, no reference.

Colours are classes that the page's (or the picture's) stylesheet fills.
"""
