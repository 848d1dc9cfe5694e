"""Over TLS the SDKs send what they otherwise do not: bodies unsigned, checksums in trailers."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Iterator
from pathlib import Path

import pytest
from boto3.s3.transfer import TransferConfig  # type: ignore[import-untyped,unused-ignore]
from botocore.config import Config
from botocore.exceptions import ClientError
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lakebed.base.units import MIB
from tests.clients.conftest import VERSIONINGS
from tests.clients.nodes import S3Client, s3_client
from tests.clients.programs import Program
from tests.s3.endpoint import Endpoint
from tests.seglake.lakes import body

START = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Of this machine, and by nobody else: the certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lakebed")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(START)
        .not_valid_after(START + dt.timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    written = folder / "certificate.pem", folder / "key.pem"
    written[0].write_bytes(certificate.public_bytes(pem))
    written[1].write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return written


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module", params=VERSIONINGS)
def endpoint(
    request: pytest.FixtureRequest,
    certificate: tuple[Path, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Endpoint]:
    settings = [f"--s3=default-versioning={request.param}"]
    settings += [f"--tls-cert={certificate[0]}", f"--tls-key={certificate[1]}"]
    with Endpoint(tmp_path_factory.mktemp("node") / "store", *settings) as node:
        yield node


@pytest.fixture
def s3(endpoint: Endpoint, certificate: tuple[Path, Path]) -> Iterator[S3Client]:
    client = s3_client(endpoint, verify=str(certificate[0]))
    yield client
    client.close()


def sent_headers(s3: S3Client) -> list[dict[str, str]]:
    """Filled with those of the requests to come."""
    sent: list[dict[str, str]] = []

    def look(request: S3Client, **_: object) -> None:
        found = {name.lower(): value for name, value in request.headers.items()}
        sent.append({n: v.decode() if isinstance(v, bytes) else v for n, v in found.items()})

    s3.meta.events.register("before-send.s3", look)
    return sent


def test_the_checksum_of_a_body_follows_it(s3: S3Client, bucket: str) -> None:
    sent = sent_headers(s3)
    put = s3.put_object(Bucket=bucket, Key="key", Body=b"123456789", ContentEncoding="zstd")
    assert sent[0]["x-amz-trailer"] == "x-amz-checksum-crc32"
    assert sent[0]["x-amz-content-sha256"] == "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
    assert sent[0]["content-encoding"] == "zstd,aws-chunked"
    assert put["ChecksumCRC32"] == "y/Q5Jg=="
    got = s3.get_object(Bucket=bucket, Key="key")
    assert got["ContentEncoding"] == "zstd"
    assert got["ContentLength"] == 9
    assert got["Body"].read() == b"123456789"


@pytest.mark.parametrize("algorithm", ["CRC32C", "CRC64NVME", "SHA1", "SHA256"])
def test_every_checksum_may_follow(s3: S3Client, bucket: str, algorithm: str) -> None:
    sent = sent_headers(s3)
    data = body(2 * MIB)
    s3.put_object(Bucket=bucket, Key="key", Body=data, ChecksumAlgorithm=algorithm)
    assert sent[0]["x-amz-trailer"] == f"x-amz-checksum-{algorithm.lower()}"
    got = s3.get_object(Bucket=bucket, Key="key")
    assert f"Checksum{algorithm}" in got
    assert got["Body"].read() == data


def test_parts_have_their_checksums_behind_them(s3: S3Client, bucket: str, tmp_path: Path) -> None:
    data = body(11 * MIB)
    (tmp_path / "sent").write_bytes(data)
    sent = sent_headers(s3)
    parts = TransferConfig(multipart_threshold=MIB, multipart_chunksize=5 * MIB)
    s3.upload_file(str(tmp_path / "sent"), bucket, "key", Config=parts)
    assert sum("x-amz-trailer" in headers for headers in sent) == 3
    s3.download_file(bucket, "key", str(tmp_path / "back"), Config=parts)
    assert (tmp_path / "back").read_bytes() == data


def test_a_checksum_that_is_wrong_behind_the_body_writes_nothing(s3: S3Client, bucket: str) -> None:
    """The last chunk has the right form, and the checksum of something else."""

    def spoil(request: S3Client, **_: object) -> None:
        request.body = b"9\r\n123456789\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n"
        del request.headers["Transfer-Encoding"]
        request.headers["Content-Length"] = str(len(request.body))

    s3.meta.events.register("before-send.s3.PutObject", spoil)
    with pytest.raises(ClientError) as refused:
        s3.put_object(Bucket=bucket, Key="key", Body=b"123456789")
    assert refused.value.response["Error"]["Code"] == "BadDigest"
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_bodies_may_be_signed_all_the_same(
    endpoint: Endpoint, certificate: tuple[Path, Path], bucket: str
) -> None:
    config = Config(s3={"payload_signing_enabled": True})
    signing = s3_client(endpoint, verify=str(certificate[0]), config=config)
    data = body(2 * MIB)
    signing.put_object(Bucket=bucket, Key="key", Body=data)
    assert signing.get_object(Bucket=bucket, Key="key")["Body"].read() == data
    signing.close()


def test_the_aws_command_trusts_the_certificate_it_is_given(
    endpoint: Endpoint, certificate: tuple[Path, Path], bucket: str, tmp_path: Path
) -> None:
    told = {
        "AWS_ACCESS_KEY_ID": endpoint.access_key,
        "AWS_SECRET_ACCESS_KEY": endpoint.secret_key,
        "AWS_ENDPOINT_URL": endpoint.url,
        "AWS_CA_BUNDLE": str(certificate[0]),
    }
    aws = Program("aws", home=tmp_path, environment=told)
    data = body(9 * MIB)
    (tmp_path / "sent").write_bytes(data)
    aws("s3", "cp", "sent", f"s3://{bucket}/key")
    assert aws.raw("s3", "cp", f"s3://{bucket}/key", "-") == data


def test_rclone_trusts_the_certificate_it_is_given(
    endpoint: Endpoint, certificate: tuple[Path, Path], bucket: str, tmp_path: Path
) -> None:
    told = {
        "RCLONE_CONFIG_LAKE_TYPE": "s3",
        "RCLONE_CONFIG_LAKE_PROVIDER": "Other",
        "RCLONE_CONFIG_LAKE_ACCESS_KEY_ID": endpoint.access_key,
        "RCLONE_CONFIG_LAKE_SECRET_ACCESS_KEY": endpoint.secret_key,
        "RCLONE_CONFIG_LAKE_ENDPOINT": endpoint.url,
        "RCLONE_CA_CERT": str(certificate[0]),
    }
    rclone = Program("rclone", home=tmp_path, environment=told)
    data = body(6 * MIB)
    rclone("rcat", f"lake:{bucket}/key", stdin=data)
    assert rclone.raw("cat", f"lake:{bucket}/key") == data
