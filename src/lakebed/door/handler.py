"""What carries out one operation of the table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from lakebed.door.answer import Answer
from lakebed.door.call import Call
from lakebed.door.service import Service

Handler = Callable[[Service, Call], Awaitable[Answer]]
