"""How many connections there may be, of all servers that share one limit.

Anybody can connect, without a key. So when there is no room for one more, the oldest that waits for
a request and never had one with a key is closed; only if there is none, the new one is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakebed.http.connection import Connection
    from lakebed.http.handshake import Handshake


class ConnectionLimit:
    """In the thread of one loop."""

    def __init__(self, count_max: int) -> None:
        self.count_max = count_max
        self._connections: set[Connection | Handshake] = set()
        self._strangers: dict[Connection | Handshake, None] = {}  # the oldest first

    def admit(self, connection: Connection | Handshake, *, is_known: bool) -> int:
        """How many more there is room for; it is counted in any case."""
        room = self.count_max - len(self._connections) - 1
        if room < 0 and self._close_stranger():
            room = 0
        self._connections.add(connection)
        if not is_known:
            self._strangers[connection] = None
        return room

    def mark_authenticated(self, connection: Connection) -> None:
        """It had a request with a key."""
        self._strangers.pop(connection, None)

    def forget(self, connection: Connection | Handshake) -> None:
        self._connections.discard(connection)
        self._strangers.pop(connection, None)

    def _close_stranger(self) -> bool:
        for stranger in self._strangers:
            if stranger.is_idle:
                del self._strangers[stranger]
                self._connections.discard(stranger)
                stranger.abort()
                return True
        return False
