"""The parts of ci/bench for bridges to foreign queues."""
