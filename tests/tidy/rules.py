"""Names the engines may not use, where each may be used, and what to use instead.

Files, time, randomness and threads are passed in, so that one seed replays a whole run. A name
used behind that seam's back would make a run depend on the machine.

An exception is a file or folder below `src/lakebed` and the reason why it is one. The whole of
`base/` is the seam itself, except for the rules that say otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Rule(NamedTuple):
    """`names` are dotted, as they resolve through imports; `module.*` is all of a module."""

    names: tuple[str, ...]
    instead: str
    allowed: Mapping[str, str]
    exempt: tuple[str, ...] = ()


BASE = {"base/": "the seam itself"}
BUILD = {"kernels/build.py": "a build script, never imported by the engines"}
JAVA = {"spark/java.py": "writes the wrapper of a trimmed Java before any store is open"}

FILE_CALLS = (
    "open",
    "io.open",
    "os.open",
    "os.fdopen",
    "os.writev",
    "os.pwrite",
    "os.pwritev",
    "os.read",
    "os.pread",
    "os.preadv",
    "os.fsync",
    "os.fdatasync",
    "os.rename",
    "os.replace",
    "os.unlink",
    "os.remove",
    "os.mkdir",
    "os.makedirs",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.ftruncate",
    "os.posix_fallocate",
    "fcntl.*",
)

RULES = (
    Rule(
        ("mmap.*",),
        instead="File.pread: a bad sector under a map is a signal that ends the process",
        allowed={},
    ),
    Rule(
        FILE_CALLS,
        instead="lakebed.base.files",
        allowed={
            **BASE,
            **BUILD,
            **JAVA,
            "kernels/reference.py": "the write loop that the compiled kernel mirrors",
            "cli/output.py": "puts the null device in the place of a closed pipe",
            "http/body_sender.py": "sends from a descriptor that it was given",
            "http/local_socket.py": "reaches a socket through its folder's descriptor",
            "http/server.py": "puts the null device in the place of a forked child's sockets",
        },
    ),
    Rule(
        ("os.write",),
        instead="lakebed.base.files",
        allowed={
            **BASE,
            **BUILD,
            "kernels/reference.py": "the write loop that the compiled kernel mirrors",
        },
    ),
    Rule(
        ("shutil.rmtree", "shutil.move", "shutil.copy*"),
        instead="lakebed.base.files",
        allowed={**BASE, **BUILD},
    ),
    Rule(
        (
            "time.time",
            "time.time_ns",
            "time.monotonic",
            "time.monotonic_ns",
            "time.perf_counter",
            "time.perf_counter_ns",
            "time.sleep",
            "datetime.datetime.now",
            "datetime.datetime.utcnow",
            "datetime.datetime.today",
            "datetime.date.today",
        ),
        instead="the clock that was passed in (lakebed.base.clock)",
        allowed={**BASE, **BUILD},
    ),
    Rule(
        ("random.*",),
        instead="the random.Random that was passed in",
        allowed=BASE,
        exempt=("random.Random",),
    ),
    Rule(
        (
            "threading.Thread",
            "threading.Lock",
            "threading.RLock",
            "threading.Condition",
            "threading.Event",
            "threading.Semaphore",
            "threading.BoundedSemaphore",
            "threading.Barrier",
            "threading.Timer",
            "_thread.*",
            "concurrent.futures.ThreadPoolExecutor",
            "concurrent.futures.thread.ThreadPoolExecutor",
        ),
        instead="the runner that was passed in (lakebed.base.runner)",
        allowed={
            **BASE,
            "node/s3_endpoint.py": "an event loop hands what blocks to an executor",
            "http_api/server.py": "an event loop hands what blocks to an executor",
            "http_api/jobs.py": "a job has a thread of its own",
            "spark/tables/location.py": "an environment variable is the process's, whoever runs it",
            "host/local_server.py": "an event loop of its own, and never on a simulated disk",
        },
    ),
    Rule(
        ("struct.*",),
        instead="a Layout in the format module",
        allowed={"base/layout.py": "compiles the layouts"},
    ),
    Rule(
        ("print",),
        instead="the output of the command line, or a return value",
        allowed={"cli/": "the one place that prints", **BUILD},
    ),
)

# Methods of `pathlib.Path` that touch the disk, told apart from methods of the same name on
# other objects by what they are called on (see `scan`).
PATH_METHODS = Rule(
    (
        "read_text",
        "read_bytes",
        "write_text",
        "write_bytes",
        "open",
        "touch",
        "mkdir",
        "rmdir",
        "unlink",
        "rename",
        "symlink_to",
        "hardlink_to",
    ),
    instead="lakebed.base.files",
    allowed={**BASE, **BUILD, **JAVA},
)
