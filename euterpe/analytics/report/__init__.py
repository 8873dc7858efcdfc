"""The report, as an HTML page and as a JSON document. It needs no Spark, because the marts are small."""

from euterpe.analytics.report.document import to_json
from euterpe.analytics.report.page import render
from euterpe.analytics.report.results import Misdated, Results, Totals

__all__ = ["Misdated", "Results", "Totals", "render", "to_json"]
