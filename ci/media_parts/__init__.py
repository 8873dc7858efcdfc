"""The parts of `ci/bench media`."""
