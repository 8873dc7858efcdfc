"""Process all files that refer to other files or hosts, in a separate process, as jobs process their sources.

`python -m tests.media.hostile.references FOLDER SOURCES OUTSIDE_PATH OUTSIDE_URL` prints the name of each
processed file.
"""

import sys
from pathlib import Path

from euterpe.media.ffmpeg import find_ffmpeg
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.hostile.attempt import attempt
from tests.media.hostile.corpus import REFERENCES
from tests.media.hostile.originals import Originals
from tests.media.sources.cache import Sources


def main(folder: Path, sources: Path, outside_path: str, outside_url: str) -> None:
    originals = Originals(Sources(sources), outside_path.encode(), outside_url.encode())
    with Sandbox(find_ffmpeg()) as sandbox:
        assert not sandbox.isolation.no_files
        assert not sandbox.isolation.no_network
        for place, (name, build) in enumerate(REFERENCES.items()):
            source, out = folder / f"{place}.source", folder / f"{place}.out"
            source.write_bytes(build(originals))
            out.mkdir()
            attempt(sandbox, name, source, out)
            sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
