"""What carries out one operation of the table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from lakebed.http_api.call import Call
from lakebed.http_api.response_builder import Answer
from lakebed.http_api.service import Service

Handler = Callable[[Service, Call], Awaitable[Answer]]
