"""Read the history in the order of its commits, load it in bulk, and remove old parts of it."""
