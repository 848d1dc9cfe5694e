"""The promises that a simulation checks, and the error for a broken one."""

from __future__ import annotations

from enum import Enum

BRIEF_BYTES = 20


class Promise(Enum):
    """The promises that `docs/guarantees.md` makes, by the names that it gives them."""

    KEPT = "acknowledged-data-is-kept"
    ORDER = "order-is-kept"
    ONCE = "stored-once"
    NEVER_LATER = "refused-never-appears-later"
    NOT_INVENTED = "nothing-is-invented"
    ACCOUNTED = "every-message-is-accounted-for"
    HOLDER = "settled-by-its-holder"
    LEASE = "leased-to-one-holder"
    SCHEDULE = "delivered-when-due"
    DEAD_LETTERS = "dead-letters-are-kept"
    DELETED = "deleted-stays-deleted"
    REMOVAL = "removed-as-the-settings-allow"
    TIMES = "times-follow-the-clock"
    DAMAGE_FOUND = "damage-is-found"
    DAMAGE_ONLY = "nothing-else-is-reported"
    DAMAGE_NEVER_SERVED = "damage-is-never-served"
    DAMAGE_ISOLATED = "damage-stops-nothing-else"
    DAMAGE_ON_RECORD = "damage-stays-on-record"
    OPENS = "a-store-opens-again"
    TASKS = "no-task-dies-silently"
    BOUNDED = "resources-are-bounded"
    QUIET = "background-work-ends"
    ERRORS = "failures-are-named-errors"
    BACKUP = "a-backup-restores"


class Violation(AssertionError):
    """A broken promise. `str(violation)` names the promise and describes what happened."""

    def __init__(self, promise: Promise, what: str) -> None:
        super().__init__(f"{promise.value}: {what}")
        self.promise = promise
        self.what = what


def require(holds: bool, promise: Promise, what: str) -> None:
    if not holds:
        raise Violation(promise, what)


def brief(value: bytes | None) -> str:
    """Formats a value for the message of a violation: a long value as its beginning and length."""
    if value is None or len(value) <= BRIEF_BYTES:
        return repr(value)
    return f"{value[:BRIEF_BYTES]!r}… ({len(value)} bytes)"
