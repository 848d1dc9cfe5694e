"""Tables over https, with a certificate that only `caFile` makes trusted."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import boto3  # type: ignore[import-untyped,unused-ignore]
import pytest

from lakebed.base.errors import InputError, LakebedError
from lakebed.spark.tables.location import TableLocation
from lakebed.spark.tables.upkeep import optimize
from tests.clients.test_over_tls import write_certificate
from tests.s3.endpoint import ACCESS_KEY, SECRET_KEY, Endpoint
from tests.spark.lands import Lake
from tests.spark.table_locations import BUCKET, SCHEMA, append, batch, numbers_of, options_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.process]

MASTER = ("--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def node(
    certificate: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Endpoint]:
    arguments = (f"--tls-cert={certificate[0]}", f"--tls-key={certificate[1]}")
    with Endpoint(tmp_path_factory.mktemp("node") / "store", *arguments) as started:
        client = boto3.client(
            "s3",
            endpoint_url=started.url,
            region_name=started.region,
            aws_access_key_id=started.access_key,
            aws_secret_access_key=started.secret_key,
            verify=str(certificate[0]),
        )
        client.create_bucket(Bucket=BUCKET)
        client.close()
        yield started


@pytest.fixture
def place(
    node: Endpoint, certificate: tuple[Path, Path], request: pytest.FixtureRequest
) -> TableLocation:
    return TableLocation(
        node.url,
        node.access_key,
        node.secret_key,
        BUCKET,
        f"tables/{request.node.originalname}",
        ca_file=str(certificate[0]),
    )


def test_a_table_is_written_and_kept_up_with_the_given_certificates(place: TableLocation) -> None:
    before = os.environ.get("SSL_CERT_FILE")
    for number in (1, 2, 3):
        append(place, batch(number), SCHEMA)
    optimize(place)
    with place.trusted():
        assert numbers_of(place) == [1, 2, 3]
    assert os.environ.get("SSL_CERT_FILE") == before


def test_without_the_certificates_the_table_cannot_be_reached(place: TableLocation) -> None:
    with pytest.raises(LakebedError, match="cannot be reached"):
        append(replace(place, ca_file=""), batch(1), SCHEMA)
    with pytest.raises(InputError, match="certificates cannot be read"):
        append(replace(place, ca_file="/missing.pem"), batch(1), SCHEMA)


def test_a_frame_is_written_and_read_with_the_given_certificates(
    spark: SparkSession, place: TableLocation
) -> None:
    options = options_of(place) | {"caFile": place.ca_file}
    spark.range(5).write.format("lakebed.table").mode("append").options(**options).save()
    assert spark.read.format("lakebed.table").options(**options).load().count() == 5
    with pytest.raises(Exception, match="cannot be reached"):
        spark.read.format("lakebed.table").options(**options_of(place)).load().count()


def test_land_trusts_the_certificates_of_its_command_line(
    node: Endpoint, place: TableLocation, tmp_path: Path
) -> None:
    lake = Lake(node)
    topic = lake.new_topic()
    lake.add(topic, b"1", b"2")
    lake.store.close()
    command = [sys.executable, "-m", "lakebed.cli", "--root", str(node.root), "spark", "run"]
    command += ["land", str(place), "--topic", topic, "--s3-endpoint", node.url]
    command += ["--ca-file", place.ca_file, *MASTER]
    keys = {"LAKEBED_ACCESS_KEY": ACCESS_KEY, "LAKEBED_SECRET_KEY": SECRET_KEY}
    done = subprocess.run(
        command,
        env={**os.environ, **keys, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "rows: 2" in done.stdout
