"""What this installation can do: figures of its own database, on its own machine."""
