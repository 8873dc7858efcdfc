"""The answers as a page for people and as a document for programs. No Spark: the marts are small by now."""

from euterpe.analytics.report.document import to_json
from euterpe.analytics.report.page import render
from euterpe.analytics.report.results import Misdated, Results, Totals

__all__ = ["Misdated", "Results", "Totals", "render", "to_json"]
