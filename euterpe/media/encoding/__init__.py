"""Run ffmpeg by a plan: progress, limits, reasons of failures, and the check of the files that it made."""
