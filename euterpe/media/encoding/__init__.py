"""Run the commands of a plan under limits, report progress, classify failures, and verify the files."""
