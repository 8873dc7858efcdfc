"""Run scripts in Node, with the packages of ci/node/package.json, which `ci/setup` installs."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

NODE_MODULES = Path(sys.prefix) / "node" / "node_modules"
TIMEOUT_S = 120.0


def node_command(script: str | Path, *args: str | Path) -> list[str]:
    """Return the command line for `script`: a path, or the text of a CommonJS script."""
    node = shutil.which("node")
    assert node is not None, "Node is not installed: ci/setup needs Node 20 or newer"
    source = [str(script)] if isinstance(script, Path) else ["--eval", script, "--"]
    return [node, *source, *map(str, args)]


def node_env(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of this process with the variables of `env`.

    In this environment, `require` finds the packages of ci/node.
    """
    return {**os.environ, "NODE_PATH": str(NODE_MODULES), **(env or {})}


def run_node(
    script: str | Path,
    *args: str | Path,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    cwd: Path | None = None,
    timeout_s: float = TIMEOUT_S,
) -> str:
    """Run a script to its end and return its stdout. Raise an error with its stderr if the script fails.

    An `import` ignores NODE_PATH, so a script that imports packages must be in a folder with a link to
    NODE_MODULES.
    """
    ran = subprocess.run(
        node_command(script, *args),
        input=stdin,
        env=node_env(env),
        cwd=cwd,
        timeout=timeout_s,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"node exited with {ran.returncode}:\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout
