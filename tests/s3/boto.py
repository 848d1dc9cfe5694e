"""A client of boto3 that says what happened the first time, and keeps nothing of its own.

client = boto_client(endpoint.url, endpoint.access_key, endpoint.secret_key)
"""

from __future__ import annotations

from typing import Any

from boto3.session import Session
from botocore.config import Config


def boto_client(url: str, access_key: str, secret_key: str, **settings: Any) -> Any:
    """It tries once, so that an answer that did not come is seen. `settings` are botocore's."""
    chosen: dict[str, Any] = {
        "retries": {"total_max_attempts": 1},
        "s3": {"addressing_style": "path"},
        "connect_timeout": 20,
        "read_timeout": 60,
        "max_pool_connections": 50,
        **settings,
    }
    session = Session(
        aws_access_key_id=access_key, aws_secret_access_key=secret_key, region_name="us-east-1"
    )
    return session.client("s3", endpoint_url=url, config=Config(**chosen))
