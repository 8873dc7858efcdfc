"""The space of a file system. The number of files counts too, because many file systems limit it.

ext4 has one inode for each 16 KiB by default. So small files can use up all inodes while most of the bytes
are free, and then no program can make a file.
"""

import os
from pathlib import Path


def least_file_bytes(folder: Path) -> int:
    """Return the share of the file system that each file takes, however small it is.

    This is the size of the file system divided by its number of inodes. It is 0 if the number of inodes is
    not limited.
    """
    system = os.statvfs(folder)
    return system.f_blocks * system.f_frsize // system.f_files if system.f_files else 0


def free_bytes(folder: Path) -> int:
    """Return the free space for an unprivileged process: less than the free bytes if few inodes are free."""
    system = os.statvfs(folder)
    free = system.f_bavail * system.f_frsize
    return min(free, system.f_favail * least_file_bytes(folder)) if system.f_files else free
