"""What only the operating system's disk can show: processes, forks, pipes, limits."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from lakebed.base.errors import Closed, DiskError, Locked, NoSpace, Poisoned, SyncFailed
from lakebed.base.files.real import RealDisk, Writers
from lakebed.base.files.writing import WriteOutcome
from lakebed.base.layout import Buffer
from lakebed.kernels.disk import real_disk


def _run_python(source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_forked_child_cannot_keep_the_store_locked(tmp_path: Path) -> None:
    """The owner dies while a child it forked lives on: the lock must be free."""
    owner = """
        import os, sys
        from lakebed.kernels.disk import real_disk
        lock = real_disk().lock(sys.argv[1])
        child = os.fork()
        if child == 0:
            os.write(1, b"child %d\\n" % os.getpid())
            os.read(0, 1)              # lives until its standard input ends
            os._exit(0)
        os.wait4(0, os.WNOHANG)
        while not os.path.exists(sys.argv[2]):
            pass
        os._exit(1)                    # dies without letting go
    """
    path, may_die = tmp_path / "lock", tmp_path / "may-die"
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(owner), str(path), str(may_die)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    child = int(process.stdout.readline().split()[1])
    with pytest.raises(Locked, match=f"locked by process {process.pid}"):
        real_disk().lock(path)
    may_die.touch()
    assert process.wait(30) == 1
    os.kill(child, 0)  # the child lives
    real_disk().lock(path).release()
    process.stdin.close()
    process.stdout.close()


def test_a_child_that_ends_does_not_free_its_parents_lock(tmp_path: Path) -> None:
    disk = real_disk()
    lock = disk.lock(tmp_path / "lock")
    child = os.fork()
    if child == 0:
        lock.release()  # a no-op there
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(Locked):
        disk.lock(tmp_path / "lock")
    lock.release()


def test_another_process_is_refused_and_a_killed_owner_is_no_obstacle(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    take = """
        import sys
        from lakebed.kernels.disk import real_disk
        lock = real_disk().lock(sys.argv[1])
        print("taken", flush=True)
        sys.stdin.read()
    """
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(take), path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert owner.stdout is not None
    assert owner.stdin is not None
    assert owner.stdout.readline() == b"taken\n"
    refused = _run_python(take, path)
    assert "locked by process" in refused.stderr
    owner.kill()
    owner.wait(30)
    real_disk().lock(path).release()
    owner.stdin.close()
    owner.stdout.close()


def test_a_handle_opened_before_a_fork_is_refused_in_the_child(tmp_path: Path) -> None:
    file = real_disk().create(tmp_path / "f")
    file.write_and_sync(0, [b"parent"])
    child = os.fork()
    if child == 0:
        refused = 0
        for use in (lambda: file.pwrite(0, b"CHILD!"), lambda: file.pread(0, 1), file.sync):
            try:
                use()
            except Closed:
                refused += 1
        file.close()
        os._exit(refused)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 3
    assert file.pread(0, 10) == b"parent"
    file.close()


def test_an_executed_program_inherits_no_descriptor(tmp_path: Path) -> None:
    lock = real_disk().lock(tmp_path / "lock")
    count = "import os; print(len([n for n in os.listdir('/proc/self/fd')]))"
    with real_disk().create(tmp_path / "f"):
        inside = subprocess.run([sys.executable, "-c", count], capture_output=True, check=True)
    lock.release()
    outside = subprocess.run([sys.executable, "-c", count], capture_output=True, check=True)
    assert inside.stdout == outside.stdout


def test_a_pipe_in_a_files_place_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DiskError, match="not a regular file"):
        real_disk().open(tmp_path / "pipe")


def test_a_file_left_open_is_closed_with_a_warning(tmp_path: Path) -> None:
    with pytest.warns(ResourceWarning, match="was not closed"):
        real_disk().create(tmp_path / "f")
        gc.collect()


def test_a_full_device_is_no_space_and_the_handle_stays_usable(tmp_path: Path) -> None:
    limited = """
        import resource, signal, sys
        from lakebed.base.errors import NoSpace
        from lakebed.kernels.disk import real_disk
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        with real_disk().create(sys.argv[1]) as file:
            try:
                file.write_and_sync(0, [b"x" * 600, b"y" * 600])
            except NoSpace as error:
                print(error)
            file.write_and_sync(0, [b"z" * 100])
            print(file.pread(99, 2))
    """
    done = _run_python(limited, str(tmp_path / "f"))
    assert done.stderr == ""
    assert "File too large" in done.stdout
    assert "b'zx'" in done.stdout


class FailingWriters:
    """The calls of the kernels, one of whose syncs fails; how often they were called."""

    def __init__(self, outcome: WriteOutcome) -> None:
        self.outcome = outcome
        self.calls = 0

    def write_and_sync(
        self, fd: int, offset: int, chunks: Sequence[Buffer], *, sync: bool
    ) -> WriteOutcome:
        self.calls += 1
        return self.outcome

    def zero_fill(self, fd: int, offset: int, length: int) -> WriteOutcome:
        self.calls += 1
        return self.outcome


def test_a_failed_sync_is_never_repeated_on_its_handle(tmp_path: Path) -> None:
    writers = FailingWriters(WriteOutcome(1, 0, errno.EIO))
    disk = RealDisk(Writers(writers.write_and_sync, writers.zero_fill))
    with disk.create(tmp_path / "f") as file:
        with pytest.raises(SyncFailed, match="Input/output error"):
            file.write_and_sync(0, [b"x"])
        for use in (file.sync, lambda: file.pwrite(0, b"x"), lambda: file.zero_fill(0, 1)):
            with pytest.raises(Poisoned, match="an earlier sync failed"):
                use()
        assert writers.calls == 1
        assert file.pread(0, 1) == b""


def test_an_enospc_of_a_write_is_not_taken_for_a_failed_sync(tmp_path: Path) -> None:
    writers = FailingWriters(WriteOutcome(0, errno.ENOSPC, 0))
    disk = RealDisk(Writers(writers.write_and_sync, writers.zero_fill))
    with disk.create(tmp_path / "f") as file:
        for _ in range(2):
            with pytest.raises(NoSpace):
                file.write_and_sync(0, [b"x"])
        assert writers.calls == 2


def test_temporary_names_of_two_disks_differ() -> None:
    assert real_disk().temporary_name("f") != real_disk().temporary_name("f")
