"""ffmpeg and PyAV in sandboxed child processes: the worker's own process never parses untrusted media."""
