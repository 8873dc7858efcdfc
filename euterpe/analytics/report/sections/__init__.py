"""The questions of the report, in the order in which they are asked."""

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
# Asked of one requester alone they would mislead: how many slots its jobs need says nothing of the workers.
OF_EVERYBODY = (capacity, fairness)
