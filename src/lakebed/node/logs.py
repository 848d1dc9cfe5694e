"""The log of a node: one line per event on standard error, as JSON or as readable text.

    2026-01-31T12:00:00.123Z INFO  segment_sealed log=orders segment_id=3
    {"time": "2026-01-31T12:00:00.123Z", "level": "info", "event": "segment_sealed", …}

A line about a request has the id of the request. The values of fields whose names mark them as
secret are hidden, and so is every registered secret in any text, also where it is escaped as in
JSON. A value cannot start a new line; the lines of a traceback are indented. Format and level can
be changed while the node runs.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from lakebed.base.config import HIDDEN, is_secret
from lakebed.http.request_id import CURRENT

OURS: Final = "lakebed"
ACCESS_LOGGER: Final = "lakebed.access"

_OWN_NAMES: Final = frozenset({"time", "level", "logger", "event", "message", "error_trace"})
_SECRET_CHARACTERS_MIN: Final = 8  # shorter text would also match text that is not secret
_INDENT: Final = "    "


class NodeLogs:
    """Replaces all handlers of the root logger with a handler that writes to `stream`, or nowhere
    if `stream` is None. `close` restores the previous handlers and levels.
    """

    def __init__(self, stream: TextIO | None, *, secrets: Iterable[str] = ()) -> None:
        self._handler: logging.Handler = logging.NullHandler()
        if stream is not None:
            self._handler = logging.StreamHandler(stream)
        self._secrets = set[str]()
        self.hide(*secrets)
        root, ours, access = _loggers()
        self._before = (root.handlers[:], root.level, ours.level, access.level)
        for handler in self._before[0]:
            root.removeHandler(handler)
        root.addHandler(self._handler)
        root.setLevel(logging.WARNING)  # for other libraries; ours has its own level

    def hide(self, *secrets: str) -> None:
        """Registers secrets, which are hidden in all later lines.

        Ignores secrets with fewer than 8 characters, which would also match other text.
        """
        for secret in secrets:
            if len(secret) >= _SECRET_CHARACTERS_MIN:
                # Also in quoted forms: the `repr` of a list or an error, JSON in a message.
                self._secrets.update((secret, repr(secret)[1:-1], json.dumps(secret)[1:-1]))

    def configure(self, *, log_format: str, log_level: str, access_log: bool) -> None:
        """Sets the format of all later lines and the level of Lakebed's own, and turns the access
        log on or off.
        """
        kind = JsonLines if log_format == "json" else ConsoleLines
        self._handler.setFormatter(kind(self._secrets))
        _, ours, access = _loggers()
        ours.setLevel(log_level.upper())
        access.setLevel(logging.INFO if access_log else logging.CRITICAL)

    def close(self) -> None:
        root, ours, access = _loggers()
        handlers, root_level, ours_level, access_level = self._before
        root.removeHandler(self._handler)
        for handler in handlers:
            root.addHandler(handler)
        root.setLevel(root_level)
        ours.setLevel(ours_level)
        access.setLevel(access_level)


class JsonLines(logging.Formatter):
    """Formats each log record as one line of JSON in ASCII."""

    def __init__(self, secrets: set[str]) -> None:
        super().__init__()
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        name = getattr(record, "event", None)
        if name is None:
            document["message"] = _without(record.getMessage(), self._secrets)
        else:
            document["event"] = name
        for fact, value in _facts(record).items():
            document[f"fact_{fact}" if fact in _OWN_NAMES else fact] = self._plain(value)
        trace = _trace(self, record)
        if trace:
            document["error_trace"] = _without(trace, self._secrets)
        return json.dumps(document)

    def _plain(self, value: object) -> object:
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, float):
            return value if value - value == 0 else str(value)  # JSON has no infinity
        if isinstance(value, list | tuple):
            return [self._plain(item) for item in value]
        return _without(str(value), self._secrets)


class ConsoleLines(logging.Formatter):
    """Formats each log record as its time, its level, the name of the event (or else the message)
    and `key=value` pairs.

    A value that is empty, or has a space or a quotation mark, is quoted. The lines of a traceback
    are indented, so that they cannot be mistaken for events.
    """

    def __init__(self, secrets: set[str]) -> None:
        super().__init__()
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        name = getattr(record, "event", None)
        words = [self._hidden(record.getMessage() if name is None else name)]
        for fact, value in _facts(record).items():
            words.append(f"{fact}={_quoted(self._hidden(value))}")
        line = f"{_time(record)} {record.levelname:<7} {_escaped(' '.join(words))}"
        trace = self._hidden(_trace(self, record))
        return "\n".join([line, *(_INDENT + _escaped(text) for text in trace.splitlines())])

    def _hidden(self, value: object) -> str:
        return _without(str(value), self._secrets)


def _loggers() -> tuple[logging.Logger, logging.Logger, logging.Logger]:
    return logging.getLogger(), logging.getLogger(OURS), logging.getLogger(ACCESS_LOGGER)


def _facts(record: logging.LogRecord) -> dict[str, object]:
    """Returns the fields of an event, and the id of the current request if there is one. The values
    of fields whose names mark them as secret are hidden.
    """
    facts: dict[str, object] = dict(getattr(record, "facts", {}))
    request_id = CURRENT.get()
    if request_id:
        facts.setdefault("request_id", request_id)
    return {name: HIDDEN if is_secret(name) else value for name, value in facts.items()}


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info else ""


def _without(text: str, secrets: set[str]) -> str:
    for secret in sorted(secrets, key=len, reverse=True):  # a secret may contain another
        if secret in text:
            text = text.replace(secret, HIDDEN)
    return text


def _quoted(text: str) -> str:
    return text if text and " " not in text and '"' not in text else json.dumps(text)


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in text
    )
