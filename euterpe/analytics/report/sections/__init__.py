"""The sections of the report, each a question, in their order on the page."""

from euterpe.analytics.report.sections.capacity import capacity
from euterpe.analytics.report.sections.cost import cost
from euterpe.analytics.report.sections.credentials import credentials
from euterpe.analytics.report.sections.failures import failures
from euterpe.analytics.report.sections.fairness import fairness
from euterpe.analytics.report.sections.latency import latency
from euterpe.analytics.report.sections.outcomes import outcomes
from euterpe.analytics.report.sections.sizes import sizes
from euterpe.analytics.report.sections.speed import speed
from euterpe.analytics.report.sections.webhooks import webhooks

SECTIONS = (cost, outcomes, latency, speed, failures, credentials, webhooks, sizes, capacity, fairness)
# A report on one requester omits these sections, because they need the jobs of all requesters.
OF_EVERYBODY = (capacity, fairness)
