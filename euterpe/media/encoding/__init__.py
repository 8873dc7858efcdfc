"""Run the commands of a plan: progress, limits, reasons of failures, and the verification of the files."""
