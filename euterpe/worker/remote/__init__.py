"""The parts of `HttpPlane`, which connects a remote worker to its control plane."""
