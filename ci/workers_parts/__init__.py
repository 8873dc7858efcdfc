"""The parts of `ci/bench workers`."""
