"""Run ffmpeg and PyAV in sandboxed child processes. The worker's own process never parses untrusted media.

`source` probes a source. `planning` computes the ffmpeg commands for the outputs. `encoding` runs these
commands and checks the files. `sandbox` confines every child process.
"""
