"""Access to the disk through a narrow protocol. Engines use files only through this package, except
SQLite databases.

- `protocol`: `Disk`, `File` and `Lock`, the calls an engine may use and what they guarantee;
  `ReadableDisk` and `ReadableFile`, the calls that readers need;
- `real`: the operating system's disk; `lakebed.base.simulation.disk` is the other implementation;
- `durable`: operations built from those calls, such as `replace_atomically`;
- `notice`: a small file that publishes state to other processes and is overwritten in place;
- `writing`: the loop that writes whole buffers and handles short writes;
- `windows`, `salvage`, `handles`: reading segment files in parts, around bad sectors, and through a
  cache of open segments;
- `quarantine`: saves damaged bytes before a repair changes their file;
- `descriptors`: keeps the number of open files within the limit of the process;
- `fork_guard`: in a forked child, releases locks and sockets and refuses to use open files.
"""

from lakebed.base.files.durable import (
    build_atomically,
    make_folders,
    read_file,
    remove_temporaries,
    replace_atomically,
)
from lakebed.base.files.protocol import (
    TEMPORARY_SUFFIX,
    Disk,
    File,
    Lock,
    PathLike,
    ReadableDisk,
    ReadableFile,
)

__all__ = [
    "TEMPORARY_SUFFIX",
    "Disk",
    "File",
    "Lock",
    "PathLike",
    "ReadableDisk",
    "ReadableFile",
    "build_atomically",
    "make_folders",
    "read_file",
    "remove_temporaries",
    "replace_atomically",
]
