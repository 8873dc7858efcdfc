"""The report: an HTML page, from building blocks that the marts use for their sections.

`page` and `findings` import the marts, and the marts import `blocks`, `charts`, `html`, `words` and
`results`. Nothing here needs Spark to run, because the marts are small.
"""
