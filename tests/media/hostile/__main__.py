"""Write a hostile file: `python -m tests.media.hostile NAME FILE`. Without arguments, list all names."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.media.hostile.corpus import FILES
from tests.media.hostile.originals import Originals
from tests.media.sources.cache import Sources


def main(arguments: list[str]) -> None:
    if not arguments:
        sys.stdout.write("".join(f"{name}\n" for name in FILES))
        return
    name, path = arguments
    with TemporaryDirectory() as folder:
        originals = Originals(Sources(Path(folder)), b"/etc/passwd", b"http://127.0.0.1:9/a.mp4")
        Path(path).write_bytes(FILES[name](originals))


if __name__ == "__main__":
    main(sys.argv[1:])
