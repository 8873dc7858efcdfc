"""Run a module in a process without namespaces and Landlock, which many container runtimes deny:

`python -m tests.media.without_isolation namespaces,landlock MODULE ARGUMENT...`

The module installs a seccomp filter with the rules of Docker's default profile: `unshare`, and `clone` with
a namespace, return EPERM. The filter also applies to everything that the process starts.
"""

import platform
import runpy
import sys

from euterpe.media.sandbox import confine, seccomp
from euterpe.media.sandbox.system_calls import NEVER, Condition, Rule

_NUMBERS = {  # the numbers of the system calls on x86-64 and arm64
    "unshare": (272, 97),
    "clone": (56, 220),
    "landlock_create_ruleset": (444, 444),
}
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_NO_NAMESPACE: Rule = (Condition(0, (0,), mask=_CLONE_NEWUSER | _CLONE_NEWNET),)
_RULES: dict[str, dict[str, Rule]] = {
    "namespaces": {"unshare": NEVER, "clone": _NO_NAMESPACE},
    "landlock": {"landlock_create_ruleset": NEVER},
}


def deny(layers: list[str]) -> None:
    """Deny these layers to this process and to all processes that it starts."""
    architecture = seccomp.ARCHITECTURES[platform.machine()]
    rules = {
        _NUMBERS[name][architecture.column]: rule for layer in layers for name, rule in _RULES[layer].items()
    }
    confine.drop_capabilities()
    seccomp.install(seccomp.assemble(architecture, rules, otherwise=seccomp.ALLOW))


def main() -> None:
    layers, module = sys.argv[1].split(","), sys.argv[2]
    deny(layers)
    sys.argv = sys.argv[2:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
