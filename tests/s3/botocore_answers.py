"""What botocore reads in our responses: its own parsers, with its own model of the service."""

from __future__ import annotations

from typing import Any

from botocore import handlers
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.parsers import create_parser

from lakebed.http.response import Response

_MODEL = ServiceModel(Loader().load_service_model("s3", "service-2"), "s3")
_PARSER = create_parser("rest-xml")
_DECODERS = {
    "ListObjects": handlers.decode_list_object,
    "ListObjectsV2": handlers.decode_list_object_v2,
    "ListObjectVersions": handlers.decode_list_object_versions,
}


def understood(operation: str, response: Response) -> dict[str, Any]:
    """As a caller of boto3 gets it, who let botocore choose the encoding."""
    headers = {name.lower(): value for name, value in response.headers}
    answer = {"status_code": response.status, "headers": headers, "body": response.body}
    shape = _MODEL.operation_model(operation).output_shape
    parsed: dict[str, Any] = _PARSER.parse(answer, shape)
    if decode := _DECODERS.get(operation):
        decode(parsed, {"encoding_type_auto_set": True})
    return parsed
