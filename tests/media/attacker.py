"""A program that runs instead of ffmpeg: it makes each system call of a list and prints its error number.

The sandbox hides the files of the checkout, so Python gets the text of this program as an argument. For the
same reason, the program imports only the standard library.
"""

import ctypes
import json
import os
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def errno_of(number: int, arguments: list[int | str]) -> int:
    """Return the error number of a call, or 0 if the call succeeded."""
    passed = [
        ctypes.c_char_p(value.encode()) if isinstance(value, str) else ctypes.c_long(value)
        for value in arguments
    ]
    ctypes.set_errno(0)
    process = os.getpid()
    failed = libc.syscall(ctypes.c_long(number), *passed) < 0
    if os.getpid() != process:
        os._exit(0)  # the call was a fork that succeeded, and this is the child
    return ctypes.get_errno() if failed else 0


def main() -> None:
    known = {"$parent": os.getppid(), "$self": os.getpid()}
    for name, number, arguments in json.loads(sys.argv[1]):
        filled = [
            known[value]
            if value in known
            else value.replace("$parent", str(known["$parent"]))
            if isinstance(value, str)
            else value
            for value in arguments
        ]
        sys.stdout.write(json.dumps([name, errno_of(number, filled)]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
