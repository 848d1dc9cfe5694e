"""The socket beside a store in other processes: killed ones, forked ones, ones that just end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakebed.host.local_server import SOCKET_NAME
from lakebed.host.store import Store
from lakebed.http.local_socket import connect
from tests.host.local_clients import Client, is_refused

pytestmark = pytest.mark.process

NOBODY = 65534

OPEN = """
import os, sys, multiprocessing
from pathlib import Path
from lakebed.host.store import Store
root = Path(sys.argv[1])
store = Store.open(root)
log = store.log("orders")
log.flush(log.append_record(b"one"))
"""
WAIT = """
print("ready", flush=True)
sys.stdin.readline()
"""


@contextmanager
def program(root: Path, *parts: str) -> Iterator[subprocess.Popen[str]]:
    """One that has said that it is ready; it goes on with a line on its standard input."""
    command = [sys.executable, "-c", "".join(parts), str(root)]
    path = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def end(process: subprocess.Popen[str]) -> int:
    """Let it go on to its end."""
    process.communicate("\n", timeout=60)
    return process.returncode


def test_after_a_kill_clients_are_refused_and_the_next_writer_replaces_the_file(
    tmp_path: Path,
) -> None:
    with program(tmp_path, OPEN, WAIT) as process:
        client = Client(tmp_path)
        client.ask("GET", "/v1/health")
        process.kill()
        assert client.is_ended_by_the_other()
        client.close()
    assert (tmp_path / SOCKET_NAME).is_socket()
    with pytest.raises(ConnectionRefusedError):
        connect(tmp_path / SOCKET_NAME)
    with Store.open(tmp_path):
        client = Client(tmp_path)
        assert client.ask("GET", "/v1/state")["logs"] == ["orders"]
        client.close()
    assert not (tmp_path / SOCKET_NAME).exists()


@pytest.mark.parametrize("is_served", [False, True])
def test_a_program_that_forgets_to_close_ends_all_the_same(is_served: bool, tmp_path: Path) -> None:
    with program(tmp_path, OPEN, WAIT) as process:
        client = Client(tmp_path)
        if is_served:
            client.ask("GET", "/v1/health")  # and its connection stays
        assert end(process) == 0
        assert not (tmp_path / SOCKET_NAME).exists()
        if is_served:
            assert client.is_ended_by_the_other()
        client.close()


def test_a_request_under_way_does_not_keep_a_program_from_ending(tmp_path: Path) -> None:
    with program(tmp_path, OPEN, WAIT) as process:
        client = Client(tmp_path)
        client.begin_append("orders")
        assert end(process) == 0
        assert client.is_ended_by_the_other()
        client.close()


def test_an_error_that_ends_the_program_is_told_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-c", f"{OPEN}\nraise SystemExit('enough')", str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stderr) == (1, "enough\n")


def test_a_forked_child_keeps_no_client_waiting_when_its_parent_is_killed(tmp_path: Path) -> None:
    """The child lives on; the connection and the listening socket do not."""
    fork = """
print("ready", flush=True)
sys.stdin.readline()
reading, writing = os.pipe()
if not os.fork():
    from tests.host.local_clients import socket_descriptors
    os.write(writing, b"sockets: %d" % len(socket_descriptors()))
    sys.stdin.read()  # until the test ends
    os._exit(0)
print(os.read(reading, 100).decode(), flush=True)
sys.stdin.readline()
"""
    for is_served in (False, True):
        with program(tmp_path, OPEN, fork) as process:
            client = Client(tmp_path)
            if is_served:
                client.ask("GET", "/v1/health")
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "sockets: 0\n"
            if is_served:
                client.ask("GET", "/v1/health")  # the parent goes on
            process.kill()
            process.wait(60)
            if is_served:
                assert client.is_ended_by_the_other()
            assert is_refused(tmp_path)
            client.close()
            process.stdin.close()  # the child ends


def test_a_forked_child_that_ends_in_order_leaves_the_socket_to_its_parent(tmp_path: Path) -> None:
    fork = """
child = os.fork()
if not child:
    store.close()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    with program(tmp_path, OPEN, fork, WAIT) as process:
        client = Client(tmp_path)
        client.ask("GET", "/v1/health")
        client.close()
        assert end(process) == 0


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_process_of_a_pool_has_a_store_of_its_own(method: str, tmp_path: Path) -> None:
    """It ends without closing it, by `os._exit`, as such processes do: the file is replaced."""
    module = tmp_path / "pooled.py"
    module.write_text(
        "from lakebed.store.store import Store\n"
        "def own(root):\n"
        "    store = Store.open(root)\n"
        "    store.log('orders')\n"
    )
    pool = f"""
sys.path.insert(0, {str(tmp_path)!r})
import pooled
if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    for _ in range(2):
        child = context.Process(target=pooled.own, args=(str(root) + "-other",))
        child.start()
        child.join(60)
        assert child.exitcode == 0, child.exitcode
    assert (root / "lakebed.sock").is_socket()
    store.close()
    assert not (root / "lakebed.sock").exists()
"""
    opening = OPEN if method == "fork" else f"if __name__ == '__main__':{_indented(OPEN)}\n"
    script = tmp_path / "script.py"
    script.write_text(f"import sys, multiprocessing\n{opening}{pool}")
    command = [sys.executable, str(script), str(tmp_path / "root")]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stderr) == (0, "")
    with Store.open(tmp_path / "root-other"):
        client = Client(tmp_path / "root-other")
        client.ask("GET", "/v1/health")
        client.close()


def _indented(code: str) -> str:
    return code.replace("\n", "\n    ")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_another_users_socket_is_refused_by_the_kernel(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from lakebed.http.local_socket import connect\n"
        "os.chdir(sys.argv[1])\n"
        f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        "try:\n"
        "    connect('lakebed.sock')\n"
        "except PermissionError as error:\n"
        "    print(error)\n"
    )
    tmp_path.chmod(0o755)
    with Store.open(tmp_path):
        found = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    assert found.stdout == "[Errno 13] Permission denied: 'lakebed.sock'\n"


def test_a_program_that_is_interrupted_while_it_is_served_ends(tmp_path: Path) -> None:
    with program(tmp_path, OPEN, WAIT) as process:
        client = Client(tmp_path)
        client.ask("GET", "/v1/health")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) in (1, -signal.SIGINT)
        assert client.is_ended_by_the_other()
        client.close()
