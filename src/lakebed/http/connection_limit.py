"""The limit on the number of connections, which several servers can share.

Anyone can connect without a key. So at the limit, the oldest connection that is waiting for a
request and never sent an authenticated one is closed. The new connection is refused only if there
is no such connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakebed.http.connection import Connection
    from lakebed.http.handshake import Handshake


class ConnectionLimit:
    """Used in the thread of one event loop."""

    def __init__(self, count_max: int) -> None:
        self.count_max = count_max
        self._connections: set[Connection | Handshake] = set()
        self._strangers: dict[
            Connection | Handshake, None
        ] = {}  # never authenticated; oldest first

    def admit(self, connection: Connection | Handshake, *, is_known: bool) -> int:
        """Counts the connection, also above the limit, and returns how many more are allowed."""
        room = self.count_max - len(self._connections) - 1
        if room < 0 and self._close_stranger():
            room = 0
        self._connections.add(connection)
        if not is_known:
            self._strangers[connection] = None
        return room

    def mark_authenticated(self, connection: Connection) -> None:
        """Records that the connection sent a request with a valid key."""
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
