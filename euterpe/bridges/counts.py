"""The metrics of the bridges of a process, for Prometheus and for tests."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class BridgeCounts:
    """The metrics of all bridges of a process. The name of the bridge is their first label."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        bridge = ("bridge",)
        self.held = Gauge(
            "euterpe_bridge_held",
            "Jobs that the bridge holds in the foreign queue.",
            bridge,
            registry=registry,
        )
        self.reachable = Gauge(
            "euterpe_bridge_reachable",
            "1 while the foreign queue answers, and 0 during an outage.",
            bridge,
            registry=registry,
        )
        self.taken = Counter(
            "euterpe_bridge_taken", "Deliveries of jobs to the bridge.", bridge, registry=registry
        )
        self.refused = Counter(
            "euterpe_bridge_refused",
            "Deliveries of jobs without a mapping, or with invalid data.",
            bridge,
            registry=registry,
        )
        self.outages = Counter(
            "euterpe_bridge_outages", "Outages of the foreign queue.", bridge, registry=registry
        )
        self.closed = Gauge(
            "euterpe_bridge_closed",
            "1 while the requester is disabled or its quota is full, so that the bridge takes no jobs.",
            bridge,
            registry=registry,
        )
        self.ended = Counter(
            "euterpe_bridge_ended",
            "Ends of deliveries: done, lost or gone as the foreign queue answered, released, or error.",
            ("bridge", "answer"),
            registry=registry,
        )

        self.reported = Counter(
            "euterpe_bridge_reported",
            "Ends that the foreign queue recorded: succeeded, failed, refused or canceled.",
            ("bridge", "outcome"),
            registry=registry,
        )

    def of(self, bridge: str) -> "CountedJobs":
        return CountedJobs(self, bridge)


class CountedJobs:
    """The metrics of one bridge."""

    def __init__(self, counts: BridgeCounts, bridge: str) -> None:
        self.held, self.reachable = counts.held.labels(bridge), counts.reachable.labels(bridge)
        self.taken, self.refused = counts.taken.labels(bridge), counts.refused.labels(bridge)
        self.outages, self.closed = counts.outages.labels(bridge), counts.closed.labels(bridge)
        self._ended, self._reported, self._bridge = counts.ended, counts.reported, bridge

    def ended(self, answer: str) -> None:
        self._ended.labels(self._bridge, answer).inc()

    def reported(self, outcome: str) -> None:
        self._reported.labels(self._bridge, outcome).inc()
