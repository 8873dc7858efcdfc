"""The report: an HTML page, made of building blocks that the marts use for their sections.

`page` and `findings` import the marts, and the marts import `blocks`, `charts`, `html`, `words` and
`results`. This package does not run Spark: the marts are small Arrow tables.
"""
