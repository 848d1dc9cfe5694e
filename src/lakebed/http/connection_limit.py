"""The limit on the number of connections, which several servers can share.

Any client can connect without a key. So when a client connects and the limit is reached, the server
closes the oldest connection that is idle and has never sent an authenticated request. The new
connection is refused only if there is no such connection. Connections of local sockets count, but
are never closed for this reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakebed.http.connection import Connection
    from lakebed.http.handshake import Handshake


class ConnectionLimit:
    """Counts connections and makes room at the limit. For use in one event loop's thread."""

    def __init__(self, count_max: int) -> None:
        self.count_max = count_max
        self._connections: set[Connection | Handshake] = set()
        self._strangers: dict[
            Connection | Handshake, None
        ] = {}  # never authenticated; oldest first

    def admit(self, connection: Connection | Handshake, *, is_known: bool) -> int:
        """Counts a new connection and returns how many more connections the limit allows.

        At the limit, closes another connection to make room if it can. A negative result means that
        the limit is exceeded and the caller must refuse the connection. If `is_known` is true, the
        new connection is never closed to make room for others.
        """
        room = self.count_max - len(self._connections) - 1
        if room < 0 and self._close_stranger():
            room = 0
        self._connections.add(connection)
        if not is_known:
            self._strangers[connection] = None
        return room

    def mark_authenticated(self, connection: Connection) -> None:
        """Records that the connection sent an authenticated request.

        From then on it is never closed to make room for new connections.
        """
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
