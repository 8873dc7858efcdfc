"""ffmpeg and PyAV in sandboxed child processes: the worker's own process never parses untrusted media.

`source` probes a source, `planning` decides what to make of it, `encoding` runs ffmpeg and checks its files,
and `sandbox` confines every child process.
"""
