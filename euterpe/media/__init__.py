"""ffmpeg and PyAV, held at arm's length: hostile media is only ever parsed in a sandboxed child process."""
