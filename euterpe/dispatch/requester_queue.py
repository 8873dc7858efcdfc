"""The destinations of one requester, which take turns among themselves."""

from euterpe.dispatch.destination import Destination, origin_of
from euterpe.store.outbox import ClaimedEvent


class RequesterQueue:
    def __init__(self, requester_id: str, *, most_known: int) -> None:
        self._requester_id, self._most_known = requester_id, most_known
        self._known: dict[str, Destination] = {}  # used last: at the end
        self.last_start = 0  # the number of its last send, counted over all requesters
        self.active: dict[str, Destination] = {}  # something waits; whose turn it is comes first

    def destination(self, event: ClaimedEvent) -> Destination:
        """Return the destination of an event; forget the idle one that was used the longest ago if there
        are too many."""
        origin = origin_of(event.url)
        found = self._known.pop(origin, None) or Destination((self._requester_id, origin))
        self._known[origin] = found
        if len(self._known) > self._most_known:
            idle = (
                old for old, d in self._known.items() if not d.waiting and not d.flights and d is not found
            )
            self._known.pop(next(idle, ""), None)
        return found

    def known(self, origin: str) -> Destination | None:
        return self._known.get(origin)

    def is_idle(self) -> bool:
        return not self.active and not any(d.flights for d in self._known.values())

    def __len__(self) -> int:
        """Return how many destinations are remembered."""
        return len(self._known)

    def activate(self, destination: Destination) -> None:
        self.active.setdefault(destination.key[1], destination)

    def take_turn(self, destination: Destination) -> None:
        """Put a destination behind the others, or take it out when nothing waits for it any more."""
        del self.active[destination.key[1]]
        if destination.waiting:
            self.active[destination.key[1]] = destination

    def settle(self, destination: Destination) -> None:
        """Take a destination out when nothing waits for it any more."""
        if not destination.waiting:
            self.active.pop(destination.key[1], None)
