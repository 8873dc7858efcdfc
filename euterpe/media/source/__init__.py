"""The facts of a source: the probe, which runs in a sandboxed child, and its validated answer."""
