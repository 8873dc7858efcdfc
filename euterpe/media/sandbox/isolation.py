"""The sandbox layers that this kernel and container runtime allow, and advice for missing layers."""

from collections.abc import Iterator
from dataclasses import dataclass

from euterpe.domain.errors import EuterpeError

# Docker's default seccomp profile allows `unshare` only with CAP_SYS_ADMIN. Since Docker 23.0, this profile
# allows Landlock.
_NETWORK_ADVICE = (
    "allow the system call unshare: in Docker by --security-opt seccomp=PROFILE.json, a copy of the default "
    "profile with `unshare` added; in Kubernetes by such a profile as seccompProfile type Localhost; on the "
    "host by user.max_user_namespaces above 0 and, on Ubuntu, kernel.apparmor_restrict_unprivileged_userns=0"
)
_FILES_ADVICE = (
    "run on Linux 5.13 or newer with `landlock` in lsm= of the kernel's command line, and allow the system "
    "calls landlock_*: in Docker the default profile does since 23.0, an older one needs --security-opt "
    "seccomp=PROFILE.json; in Kubernetes seccompProfile type RuntimeDefault does with containerd 1.6 or newer"
)
_SYSTEM_CALLS_ADVICE = "run on x86-64 or arm64 and a kernel with CONFIG_SECCOMP_FILTER"


class SandboxIncomplete(EuterpeError):
    """Raised when an essential layer is missing.

    An essential layer keeps a compromised ffmpeg from harming other requesters.
    """

    code = "sandbox_incomplete"


@dataclass(frozen=True)
class Layer:
    """A layer of the sandbox, with its description and advice for an operator."""

    name: str
    holds: bool
    is_essential: bool
    mechanism: str
    open_without: str
    advice: str


@dataclass(frozen=True)
class Isolation:
    """The restrictions that the kernel and container runtime support. (Resource limits always apply.)

    The restrictions deny a child all networks, and every file and system call that the child does not need.
    """

    no_network: bool
    no_files: bool
    few_system_calls: bool

    def layers(self) -> Iterator[Layer]:
        """Yield each layer.

        The network namespace is not essential, because the seccomp filter refuses sockets.
        """
        yield Layer(
            "network",
            self.no_network,
            is_essential=False,
            mechanism="network namespace",
            open_without="nothing but the seccomp filter keeps it from the network",
            advice=_NETWORK_ADVICE,
        )
        yield Layer(
            "files",
            self.no_files,
            is_essential=True,
            mechanism="Landlock",
            open_without="it can read and replace every file that the worker can",
            advice=_FILES_ADVICE,
        )
        yield Layer(
            "system_calls",
            self.few_system_calls,
            is_essential=True,
            mechanism="seccomp filter",
            open_without="it can open sockets, lower limits and change modes of others, and start processes",
            advice=_SYSTEM_CALLS_ADVICE,
        )

    def missing(self) -> list[Layer]:
        """Return the layers that this kernel or container runtime does not allow."""
        return [layer for layer in self.layers() if not layer.holds]

    def require(self) -> None:
        """Raise `SandboxIncomplete` if an essential layer is missing."""
        missing = [
            f"{layer.name} ({layer.mechanism}) is missing: {layer.advice}"
            for layer in self.missing()
            if layer.is_essential
        ]
        if missing:
            raise SandboxIncomplete(
                f"the sandbox is incomplete: {'; '.join(missing)}; or accept the risk with "
                "EUTERPE_REQUIRE_SANDBOX=false"
            )
