"""Convert a plan to and from a JSON document, and compute its hash."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from pydantic import TypeAdapter

from euterpe.domain.strict_json import canonical_json
from euterpe.media.planning.tree import Plan

_PLAN = TypeAdapter(Plan)


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return the plan as a JSON object that has every field of `Plan`."""
    document: dict[str, Any] = _PLAN.dump_python(plan, mode="json")
    return document


def read_plan(document: Mapping[str, Any]) -> Plan:
    """Return the plan that `plan_document` wrote. Raise ValueError if the document is not a plan."""
    # Validate JSON and not Python values: pydantic's strict mode refuses a list for a tuple in Python values.
    return _PLAN.validate_json(canonical_json(dict(document)), strict=True, extra="forbid")


def plan_hash(plan: Plan) -> str:
    """Return a hash that is equal for plans that make the same files.

    The hash leaves out the number of decoder threads, which depends on the worker and changes no output.
    """
    document = plan_document(plan)
    del document["decoder_threads"]
    return sha256(canonical_json(document).encode()).hexdigest()
