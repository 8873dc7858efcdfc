"""Tests of the sandbox: what a child can do, and that it ends with its helper and its worker."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

from euterpe.media.encoding.failure_reason import error_from_exit
from euterpe.media.errors import MediaError
from euterpe.media.sandbox.confine import ResourceLimits
from euterpe.media.sandbox.sandbox import Sandbox, reopened
from tests.media.children import (
    LIMITS,
    first_output,
    helper_of,
    output,
    shell,
    sleeper,
    without_a_death_signal,
)
from tests.media.clips import Clips
from tests.media.media_steps import TIMEOUT_S, probe
from tests.media.processes import has_exited, wait_for_exit


def test_the_output_and_the_exit_code_of_a_child_are_received(sandbox: Sandbox, tmp_path: Path) -> None:
    with shell(sandbox, "echo out; echo err >&2; exit 3", tmp_path) as child:
        events = sorted(event for event in child.events(TIMEOUT_S) if event is not None)
        assert events == [(1, b"out\n"), (2, b"err\n")]
        assert child.end.code == 3
        assert child.wait() == child.end


def test_a_child_inherits_nothing_of_the_worker(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EUTERPE_CANARY", "secret")
    with sleeper(sandbox, tmp_path) as child:
        proc = Path("/proc") / str(child.pid)
        status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines())
        assert b"CANARY" not in (proc / "environ").read_bytes()
        open_files = {str(entry.readlink()).partition(":")[0] for entry in (proc / "fd").iterdir()}
        assert open_files == {os.devnull, "pipe"}
        assert (os.getsid(child.pid), os.getpgid(child.pid)) == (child.pid, child.pid)
        assert (status["CapEff"].strip("0"), status["CapPrm"].strip("0"), status["NoNewPrivs"]) == (
            "",
            "",
            "1",
        )
        assert (proc / "cwd").readlink() == tmp_path
        limits = {
            what: resource.prlimit(child.pid, what) for what in (resource.RLIMIT_DATA, resource.RLIMIT_CORE)
        }
        assert limits == {resource.RLIMIT_DATA: (1 << 30, 1 << 30), resource.RLIMIT_CORE: (0, 0)}


def test_a_child_finds_the_files_that_it_is_given_under_their_numbers(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    (tmp_path / "given").write_text("given\n")
    with (
        (tmp_path / "given").open() as file,
        shell(sandbox, "read word <&7; echo $word", tmp_path, given=file.fileno()) as child,
    ):
        assert output(child) == "given\n"


def test_a_child_cannot_write_to_the_source_that_it_reads(sandbox: Sandbox, tmp_path: Path) -> None:
    """A worker keeps a source for a retry only if the file has not changed since its fetch."""
    (folder := tmp_path / "folder").mkdir()
    (source := tmp_path / "source").write_text("source\n")
    before = source.stat()
    tries = ("echo a >&7", "echo a >/proc/self/fd/7", "echo a >/dev/fd/7", "echo a >../source")
    with source.open("r+b") as file, reopened(file.fileno()) as given:
        for write in tries:
            with shell(sandbox, f"{write}; read word <&7; echo $word", folder, given=given) as child:
                output(child)
    assert source.read_text() == "source\n"
    assert source.stat().st_ctime_ns == before.st_ctime_ns


def test_a_child_sees_no_file_outside_its_folder(sandbox: Sandbox, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "own").write_text("own\n")
    (tmp_path / "canary").write_text("CANARY\n")
    reads = "; ".join(f"read word < {path} && echo $word" for path in ("own", "../canary", "/etc/passwd"))
    with shell(sandbox, f"{reads}; echo x > new; echo x > ../new", folder) as child:
        printed = output(child)
    assert printed.startswith("own")
    assert (folder / "new").exists()
    assert sandbox.isolation.no_files == (not (tmp_path / "new").exists())
    assert sandbox.isolation.no_files == ("CANARY" not in printed and "root:" not in printed)


def test_a_child_has_as_much_memory_as_it_is_allowed(sandbox: Sandbox, tmp_path: Path) -> None:
    for size, code in ((100, 0), (400, 1)):
        argv = [os.path.realpath(sys.executable), "-ISc", f"bytearray({size} << 20)"]
        limits = ResourceLimits(memory_bytes=256 << 20, cpu_seconds=60)
        with sandbox.run(argv, fds={}, cwd=tmp_path, limits=limits) as child:
            assert ("MemoryError" in output(child)) == (code != 0)
        assert child.end.code == code


# The program makes its memory read-only, because RLIMIT_DATA counts only writable memory. The program
# also sets a process name that is not valid UTF-8, as any program can do.
_MEMORY_MADE_READ_ONLY = """
import ctypes, time
libc = ctypes.CDLL(None)
libc.prctl(15, b"\\xff) R")
print("begins", flush=True)
libc.mmap.restype = ctypes.c_void_p
for _ in range(12):
    address = libc.mmap(None, ctypes.c_size_t(50 << 20), 3, 0x22, -1, ctypes.c_long(0))
    ctypes.memset(address, 1, 50 << 20)
    libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(50 << 20), 1)
time.sleep(600)
"""


def test_a_child_that_holds_memory_beside_its_limit_is_ended(sandbox: Sandbox, tmp_path: Path) -> None:
    argv = [os.path.realpath(sys.executable), "-ISc", _MEMORY_MADE_READ_ONLY]
    limits = ResourceLimits(memory_bytes=256 << 20, cpu_seconds=60)
    with sandbox.run(argv, fds={}, cwd=tmp_path, limits=limits) as child:
        assert first_output(child) == b"begins\n"
        assert child.cpu_seconds < TIMEOUT_S
        end = child.wait(TIMEOUT_S)
    assert end is not None
    assert end.code == -signal.SIGKILL
    error = error_from_exit(end, limits)
    assert error is not None
    assert error.code == "out_of_memory"


@pytest.mark.parametrize(
    "call",
    [
        "symlink('/etc/passwd', 'new')",
        "mkfifo('new')",
        "mkdir('new')",
        "link('own', 'inner/new')",
        "rename('own', 'inner/new')",
    ],
)
def test_a_child_makes_nothing_but_files(sandbox: Sandbox, tmp_path: Path, call: str) -> None:
    (tmp_path / "own").touch()
    (tmp_path / "inner").mkdir()
    python = os.path.realpath(sys.executable)
    with sandbox.run(
        [python, "-ISc", f"import posix; posix.{call}"], fds={}, cwd=tmp_path, limits=LIMITS
    ) as child:
        printed = output(child)
    made = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*"))
    # seccomp allows renames, which a child needs within its folder. Only Landlock refuses renames in other
    # folders.
    refused = sandbox.isolation.no_files or (
        sandbox.isolation.few_system_calls and not call.startswith("rename")
    )
    assert refused == (made == ["inner", "own"]), printed
    assert refused == ("Error" in printed), printed


def test_a_child_makes_and_renames_files(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    script = "open('inner/a', 'w').write('made'); import posix; posix.rename('inner/a', 'inner/b')"
    python = os.path.realpath(sys.executable)
    with sandbox.run([python, "-ISc", script], fds={}, cwd=tmp_path, limits=LIMITS) as child:
        assert output(child) == ""
    assert (tmp_path / "inner/b").read_text() == "made"


def test_a_child_reaches_no_network(sandbox: Sandbox, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        argv = [str(sandbox.ffmpeg), "-nostdin", "-i", url]
        with sandbox.run(argv, fds={}, cwd=tmp_path, limits=LIMITS_OF_FFMPEG) as child:
            printed = output(child)
        assert child.end.code != 0
        assert any(astuple(sandbox.isolation)), printed
        with pytest.raises(BlockingIOError):
            listener.accept()


LIMITS_OF_FFMPEG = ResourceLimits(memory_bytes=8 << 30, cpu_seconds=60)


def test_a_file_grows_no_further_than_its_limit(sandbox: Sandbox, tmp_path: Path) -> None:
    limits = ResourceLimits(memory_bytes=1 << 30, cpu_seconds=60, file_bytes=4096)
    with shell(sandbox, "while :; do echo 0123456789abcdef; done > big", tmp_path, limits) as child:
        output(child)
    assert child.end.code == -signal.SIGXFSZ
    assert (tmp_path / "big").stat().st_size == 4096


def test_a_child_that_computes_without_end_is_ended(sandbox: Sandbox, tmp_path: Path) -> None:
    limits = ResourceLimits(memory_bytes=1 << 30, cpu_seconds=1)
    with shell(sandbox, "while :; do :; done", tmp_path, limits) as child:
        end = child.wait(TIMEOUT_S)
    assert end is not None
    assert end.code == -signal.SIGXCPU


def test_a_killed_child_ends_by_that_signal(sandbox: Sandbox, tmp_path: Path) -> None:
    with sleeper(sandbox, tmp_path) as child:
        child.kill()
        child.kill()
        end = child.wait(TIMEOUT_S)
        assert end is not None
        assert end.code == -signal.SIGKILL


def test_a_child_starts_no_process_that_could_outlive_it(sandbox: Sandbox, tmp_path: Path) -> None:
    with shell(sandbox, "(echo started) & echo alone", tmp_path) as child:
        printed = output(child)
    assert "Cannot fork" in printed
    assert "started" not in printed


def test_each_child_has_its_own_count_of_threads(sandbox: Sandbox, tmp_path: Path) -> None:
    """The kernel counts the threads of a user separately in each user namespace."""
    with sleeper(sandbox, tmp_path) as child, sleeper(sandbox, tmp_path) as other:
        counts = {Path(f"/proc/{pid}/ns/user").readlink() for pid in (child.pid, other.pid)}
        networks = {Path(f"/proc/{pid}/ns/net").readlink() for pid in (child.pid, other.pid)}
        limit = resource.prlimit(child.pid, resource.RLIMIT_NPROC)[0]
    assert sandbox.isolation.no_network == (len(counts) == 2)
    assert sandbox.isolation.no_network == (limit == ResourceLimits(0, 0).processes)
    assert len(networks) == 1


def test_a_child_that_takes_all_threads_leaves_another_its_own() -> None:
    ended = subprocess.run(
        [_python_of_nobody(), "-m", "tests.media.thread_exhaustion"],
        env=_ENVIRON_OF_NOBODY,
        capture_output=True,
        text=True,
        check=False,
        **_AS_NOBODY,
    )
    assert ended.returncode == 0, ended.stderr
    limit, second = json.loads(ended.stdout)
    assert (900 < limit < 1024, second) == (True, 20)


# The kernel counts root's threads but does not limit them, so the test needs another user.
_NOBODY = 65534
_AS_NOBODY: dict[str, Any] = (
    {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
)
_ENVIRON_OF_NOBODY = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(filter(os.path.isabs, sys.path))}


def _python_of_nobody() -> str:
    """Return an interpreter that another user can start. Root's interpreter can be in root's home folder."""
    for python in (sys.executable, "/usr/bin/python3"):
        command = [python, "-c", "import av, euterpe, sys; open(sys.executable)"]
        with suppress(OSError):
            if subprocess.run(command, env=_ENVIRON_OF_NOBODY, check=False, **_AS_NOBODY).returncode == 0:
                return python
    pytest.fail("no interpreter that a user who is not root can start")


def test_the_end_of_the_block_is_the_end_of_the_child(sandbox: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), sleeper(sandbox, tmp_path) as child:
        raise ZeroDivisionError
    assert not Path("/proc", str(child.pid)).exists()


def test_termination_signals_do_not_end_a_child(sandbox: Sandbox, tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    with shell(sandbox, "echo ready; read word <&7; echo $word", tmp_path, given=read_end) as child:
        assert first_output(child) == b"ready\n"
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(child.pid, number)
        os.write(write_end, b"done\n")
        assert output(child) == "done\n"
    os.close(read_end)
    os.close(write_end)


def test_a_stopped_sandbox_takes_its_children_with_it(own_sandbox: Sandbox, tmp_path: Path) -> None:
    with sleeper(own_sandbox, tmp_path) as child:
        own_sandbox.stop()
        assert wait_for_exit(child.pid)
    with pytest.raises(MediaError, match="not started"):
        shell(own_sandbox, "true", tmp_path)


def test_a_killed_helper_takes_its_children_with_it_and_is_replaced(
    own_sandbox: Sandbox, tmp_path: Path, clips: Clips
) -> None:
    helper = helper_of(own_sandbox)
    with sleeper(own_sandbox, tmp_path) as child:
        os.kill(helper, signal.SIGKILL)
        with pytest.raises(MediaError) as lost:
            child.wait(TIMEOUT_S)
        assert lost.value.code == "sandbox_failed"
        assert lost.value.retryable
        assert wait_for_exit(child.pid)
    assert probe(own_sandbox, clips.make("film.mp4")).container == "mov"
    assert helper_of(own_sandbox) != helper


def test_a_child_without_a_death_signal_ends_with_its_helper(own_sandbox: Sandbox, tmp_path: Path) -> None:
    with without_a_death_signal(own_sandbox, tmp_path) as child:
        os.kill(helper_of(own_sandbox), signal.SIGKILL)
        with pytest.raises(MediaError, match="helper process is gone"):
            child.wait(TIMEOUT_S)
    assert has_exited(child.pid)


@pytest.mark.parametrize("helper_is_killed", [False, True])
def test_a_stopped_sandbox_leaves_no_child_without_a_death_signal(
    own_sandbox: Sandbox, tmp_path: Path, helper_is_killed: bool
) -> None:
    with without_a_death_signal(own_sandbox, tmp_path) as child:
        if helper_is_killed:
            os.kill(helper_of(own_sandbox), signal.SIGKILL)
        own_sandbox.stop()
        assert wait_for_exit(child.pid)


def test_a_new_helper_finds_no_child_of_a_killed_one(own_sandbox: Sandbox, tmp_path: Path) -> None:
    with without_a_death_signal(own_sandbox, tmp_path) as child:
        os.kill(helper_of(own_sandbox), signal.SIGKILL)
        with pytest.raises(MediaError):
            child.wait(TIMEOUT_S)
        with shell(own_sandbox, "echo new", tmp_path) as other:
            assert output(other) == "new\n"
        assert wait_for_exit(child.pid)


def test_killing_a_closed_child_kills_no_other_process(sandbox: Sandbox, tmp_path: Path) -> None:
    with shell(sandbox, "true", tmp_path) as child:
        output(child)
    with sleeper(sandbox, tmp_path) as other:
        child.kill()
        assert other.wait(0.1) is None


def test_nothing_outlives_a_killed_worker(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.media.worker", str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None
        child = int(worker.stdout.readline())
        parent = int(Path("/proc", str(child), "stat").read_text().rpartition(")")[2].split()[1])
        worker.send_signal(signal.SIGKILL)
        assert worker.wait(TIMEOUT_S) == -signal.SIGKILL
        assert [wait_for_exit(pid) for pid in (parent, child)] == [True, True]


def test_a_program_that_cannot_be_executed_is_an_error(sandbox: Sandbox, tmp_path: Path) -> None:
    with (
        pytest.raises(MediaError, match="could not start"),
        sandbox.run(["/nothing/here"], fds={}, cwd=tmp_path, limits=LIMITS) as child,
    ):
        child.wait(TIMEOUT_S)
