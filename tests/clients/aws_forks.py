"""The aws command, loaded once: a process that forks for every run of it.

Loading takes the most of a short run, and there are many. Lines of its input are JSON objects with
the `arguments`, the `folder` to run in, the `environment`, and the files `stdin`, `stdout` and
`stderr`; to each it answers with the code that the run ended with.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

from awscli.clidriver import main as aws  # type: ignore[import-untyped]


def run(asked: dict[str, Any]) -> int:
    """In the forked process."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC if number else os.O_RDONLY
        os.dup2(os.open(asked[name], flags, 0o600), number)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    os.chdir(asked["folder"])
    os.environ.update(asked["environment"])
    sys.argv = ["aws", *asked["arguments"]]
    code = int(aws())
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if not child:
            code = 255
            try:
                code = run(json.loads(line))
            except BaseException:  # noqa: BLE001
                traceback.print_exc()
            os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
