"""Child processes that can reach only their input: fork server, namespaces, Landlock, seccomp, limits."""
