"""Shell commands that connect common clients to a new node, for users to copy and paste.

The first commands export the node's address and the access key; the others use these variables.
"""

from __future__ import annotations

import shlex
from typing import Final
from urllib.parse import urlsplit

from lakebed.seglake.key_ring import Credentials

BUCKET: Final = "first-bucket"
_NEAR: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - the address to connect to

_AWS = f"""\
aws s3 mb s3://{BUCKET}
echo 'hello from aws' | aws s3 cp - s3://{BUCKET}/aws.txt
aws s3 ls s3://{BUCKET}"""

_BOTO3 = f"""\
python3 - <<'END'
import boto3

s3 = boto3.client("s3")
s3.create_bucket(Bucket="{BUCKET}")
s3.put_object(Bucket="{BUCKET}", Key="boto3.txt", Body=b"hello from boto3")
print(s3.get_object(Bucket="{BUCKET}", Key="boto3.txt")["Body"].read().decode())
END"""

_RCLONE = f"""\
export RCLONE_CONFIG_LAKEBED_TYPE=s3 RCLONE_CONFIG_LAKEBED_PROVIDER=Other
export RCLONE_CONFIG_LAKEBED_ENV_AUTH=true RCLONE_CONFIG_LAKEBED_ENDPOINT="$AWS_ENDPOINT_URL"
rclone mkdir lakebed:{BUCKET}
echo 'hello from rclone' | rclone rcat lakebed:{BUCKET}/rclone.txt
rclone ls lakebed:{BUCKET}"""

_SPARK = f"""\
python3 - <<'END'
import os

import boto3
import lakebed.spark

boto3.client("s3").create_bucket(Bucket="{BUCKET}")
spark = lakebed.spark.session()
table = {{
    "s3Endpoint": os.environ["AWS_ENDPOINT_URL"],
    "accessKey": os.environ["AWS_ACCESS_KEY_ID"],
    "secretKey": os.environ["AWS_SECRET_ACCESS_KEY"],
    "region": os.environ["AWS_DEFAULT_REGION"],
    "table": "{BUCKET}/numbers",
}}
spark.range(1000).write.format("lakebed.table").mode("append").options(**table).save()
print(spark.read.format("lakebed.table").options(**table).load().count())
END"""

_CURL = 'curl -sS -u "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" {url}/v1/state'


def environment_of(s3_url: str, region: str, credentials: Credentials) -> dict[str, str]:
    """Returns the environment variables that most S3 clients read, with the node's address and
    key.
    """
    return {
        "AWS_ACCESS_KEY_ID": credentials.access_key,
        "AWS_SECRET_ACCESS_KEY": credentials.secret,
        "AWS_ENDPOINT_URL": _reachable(s3_url),
        "AWS_DEFAULT_REGION": region,
    }


def exports(environment: dict[str, str]) -> list[str]:
    return [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]


def snippets(http_url: str | None) -> dict[str, str]:
    """Returns example commands by the name of the client. They need the variables of
    `environment_of`.
    """
    commands = {"aws": _AWS, "boto3": _BOTO3, "rclone": _RCLONE, "spark": _SPARK}
    if http_url is not None:
        commands["curl"] = _CURL.format(url=_reachable(http_url))
    return commands


def _reachable(url: str) -> str:
    """Returns the URL with the loopback address in place of a wildcard address such as 0.0.0.0."""
    place = urlsplit(url)
    near = _NEAR.get(place.hostname or "")
    return url if near is None else f"{place.scheme}://{near}:{place.port}"
