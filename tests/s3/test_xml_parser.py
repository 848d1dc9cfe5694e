"""Documents of clients: what is read in them, and what is refused before it costs anything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.s3.errors import S3Error
from lakebed.s3.verbs.bucket import parse_location
from lakebed.s3.verbs.bucket_versioning import parse_versioning
from lakebed.s3.verbs.multipart_upload import COMPLETE_BYTES_MAX, parse_completion
from lakebed.s3.verbs.objects_delete import DELETE_BYTES_MAX, parse_deletion
from lakebed.s3.xml_parser import SMALL_BYTES_MAX, parse
from lakebed.s3.xml_text import NAMESPACE, element, escaped
from lakebed.seglake.model import Algorithm, Checksum, Condition, ObjectToDelete, Versioning
from lakebed.seglake.multipart import NamedPart

pytestmark = pytest.mark.thorough

PARSERS = (parse_deletion, parse_completion, parse_versioning, parse_location)
CRC32 = "AAAAAA=="


def code_of(parser: object, data: bytes) -> str:
    assert callable(parser)
    with pytest.raises(S3Error) as caught:
        parser(data)
    return caught.value.code


def deletion(*objects: str, more: str = "") -> bytes:
    return (
        f"<Delete>{''.join(f'<Object>{one}</Object>' for one in objects)}{more}</Delete>".encode()
    )


def completion(*parts: str) -> bytes:
    inner = "".join(f"<Part>{part}</Part>" for part in parts)
    return f"<CompleteMultipartUpload>{inner}</CompleteMultipartUpload>".encode()


def test_what_shall_be_deleted_is_read_with_and_without_the_namespace() -> None:
    inner = (
        "<Object><Key>a &amp; b</Key></Object>\n"
        '<Object><Key> c </Key><VersionId>v</VersionId><ETag>"e"</ETag></Object>'
        "<Quiet>true</Quiet>"
    )
    doomed = [ObjectToDelete("a & b"), ObjectToDelete(" c ", "v", Condition(if_match="e"))]
    for root in (
        f"<Delete>{inner}</Delete>",
        f'<Delete xmlns="{NAMESPACE}">{inner}</Delete>',
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Delete xmlns="{NAMESPACE}">{inner}</Delete>\n',
        f'\ufeff<s:Delete xmlns:s="{NAMESPACE}">{inner}</s:Delete>',
    ):
        found = parse_deletion(root.encode())
        assert (found.objects, found.is_quiet) == (doomed, True)


def test_what_is_not_quiet_tells_all() -> None:
    assert not parse_deletion(deletion("<Key>a</Key>")).is_quiet
    assert not parse_deletion(deletion("<Key>a</Key>", more="<Quiet>false</Quiet>")).is_quiet


def test_a_thousand_are_deleted_at_once_and_no_more() -> None:
    keys = ["<Key>k</Key>"] * 1001
    assert len(parse_deletion(deletion(*keys[1:])).objects) == 1000
    assert code_of(parse_deletion, deletion(*keys)) == "MalformedXML"
    assert code_of(parse_deletion, deletion()) == "MalformedXML"


def test_a_thousand_keys_that_are_all_references_fit() -> None:
    keys = ["<Key>" + "&#x22;" * 1024 + "</Key>"] * 1000
    assert parse_deletion(deletion(*keys)).objects[-1] == ObjectToDelete('"' * 1024)


@pytest.mark.parametrize(
    "data",
    [
        deletion("<Key></Key>"),
        deletion("<VersionId>v</VersionId>"),
        deletion("<Key>a</Key><Key>b</Key>"),
        deletion("<Key>a</Key><Owner>me</Owner>"),
        deletion("<Key>a</Key>", more="<Quiet>perhaps</Quiet>"),
        deletion("<Key>a</Key>", more="<Force>true</Force>"),
        completion("<PartNumber>1</PartNumber><ETag>e</ETag>"),
    ],
)
def test_a_deletion_that_is_none_is_refused(data: bytes) -> None:
    assert code_of(parse_deletion, data) == "MalformedXML"


def test_a_deletion_by_size_or_time_is_not_ignored() -> None:
    for condition in ("<Size>1</Size>", "<LastModifiedTime>x</LastModifiedTime>"):
        assert code_of(parse_deletion, deletion(f"<Key>a</Key>{condition}")) == "NotImplemented"


@given(key=st.text(min_size=1))
def test_any_key_comes_back_from_a_document(key: str) -> None:
    try:
        key.encode()
    except UnicodeEncodeError:
        return
    assert parse_deletion(deletion(element("Key", key))).objects[0].key == key


@given(key=st.text(alphabet="a\x00\x01\x0b\x1f\ufffe\uffff€&<\t", min_size=1))
def test_forbidden_characters_may_also_stand_there_raw(key: str) -> None:
    raw = key.replace("&", "&amp;").replace("<", "&lt;")
    assert parse_deletion(deletion(f"<Key>{raw}</Key>")).objects[0].key == key


@given(number=st.integers(0, 0x120) | st.integers(0xFFF0, 0x10010), zeros=st.integers(0, 3))
def test_any_reference_is_the_character_of_its_number(number: int, zeros: int) -> None:
    for digits in (f"x{number:x}", f"x{number:X}", str(number)):
        padded = digits[:1] * (digits[0] == "x") + "0" * zeros + digits.lstrip("x")
        key = parse_deletion(deletion(f"<Key>&#{padded};</Key>")).objects[0].key
        assert key == chr(number)


def test_a_forbidden_character_is_never_mistaken_for_one_that_is_exchanged_for_it() -> None:
    for private in ("\U0010f001", "\U0010fffd"):
        assert parse_deletion(deletion(f"<Key>{private}</Key>")).objects[0].key == private
        assert code_of(parse_deletion, deletion(f"<Key>\x01{private}</Key>")) == "MalformedXML"
    literal = "<Key><![CDATA[&#x1;]]></Key>"
    assert code_of(parse_deletion, deletion(literal)) == "MalformedXML"


def test_parts_are_read_in_their_order() -> None:
    data = completion(
        '<PartNumber>2</PartNumber><ETag>"b"</ETag>',
        f"<ETag>a</ETag><ChecksumCRC32>{CRC32}</ChecksumCRC32><PartNumber>1</PartNumber>",
    )
    assert parse_completion(data) == [
        NamedPart(2, "b"),
        NamedPart(1, "a", Checksum(Algorithm.CRC32, CRC32)),
    ]


@pytest.mark.parametrize(
    "part",
    [
        "<PartNumber>1</PartNumber>",
        "<ETag>a</ETag>",
        "<PartNumber>-1</PartNumber><ETag>a</ETag>",
        "<PartNumber>1e3</PartNumber><ETag>a</ETag>",
        "<PartNumber>999999</PartNumber><ETag>a</ETag>",
        "<PartNumber>1</PartNumber><ETag>a</ETag><Size>1</Size>",
        (
            "<PartNumber>1</PartNumber><ETag>a</ETag>"
            "<ChecksumCRC32>a</ChecksumCRC32><ChecksumSHA1>a</ChecksumSHA1>"
        ),
    ],
)
def test_a_part_that_is_none_is_refused(part: str) -> None:
    assert code_of(parse_completion, completion(part)) == "MalformedXML"


def test_ten_thousand_parts_with_checksums_fit_and_one_more_does_not() -> None:
    part = (
        f"<PartNumber>10000</PartNumber><ETag>&quot;{'a' * 32}&quot;</ETag>"
        f"<ChecksumSHA256>{'a' * 44}</ChecksumSHA256>"
    )
    assert len(parse_completion(completion(*[part] * 10_000))) == 10_000
    assert code_of(parse_completion, completion(*[part] * 10_001)) == "MalformedXML"
    assert code_of(parse_completion, completion()) == "MalformedXML"


def test_versioning_is_enabled_or_suspended() -> None:
    def configuration(inner: str) -> bytes:
        return f"<VersioningConfiguration>{inner}</VersioningConfiguration>".encode()

    assert parse_versioning(configuration("<Status>Enabled</Status>")) is Versioning.ENABLED
    status = "<Status>Suspended</Status><MfaDelete>Disabled</MfaDelete>"
    assert parse_versioning(configuration(status)) is Versioning.SUSPENDED
    for bad in ("", "<Status>enabled</Status>", "<Status>Disabled</Status>"):
        found = code_of(parse_versioning, configuration(bad))
        assert found == "IllegalVersioningConfigurationException"
    second = "<Status>Enabled</Status><MfaDelete>Enabled</MfaDelete>"
    assert code_of(parse_versioning, configuration(second)) == "NotImplemented"


def test_a_location_is_read_and_nothing_else_of_a_new_bucket() -> None:
    def configuration(inner: str) -> bytes:
        return f"<CreateBucketConfiguration>{inner}</CreateBucketConfiguration>".encode()

    named = "<LocationConstraint>eu-west-1</LocationConstraint>"
    assert parse_location(configuration(named)) == "eu-west-1"
    assert parse_location(configuration("<LocationConstraint/>")) == ""
    assert parse_location(configuration("")) == ""
    assert parse_location(b"") == ""
    assert parse_location(b" \n") == ""
    for more in ("<Tags></Tags>", "<Bucket></Bucket>", "<Location></Location>"):
        assert code_of(parse_location, configuration(named + more)) == "NotImplemented"


BOMBS = [
    b'<!DOCTYPE d [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><Delete>&b;</Delete>',
    b'<!DOCTYPE d [<!ENTITY a SYSTEM "file:///etc/passwd">]><Delete>&a;</Delete>',
    b'<!DOCTYPE d SYSTEM "http://127.0.0.1/d.dtd"><Delete></Delete>',
    b'<!DOCTYPE d [<!ENTITY % a SYSTEM "http://127.0.0.1/"> %a;]><Delete></Delete>',
    b"<!DOCTYPE Delete><Delete></Delete>",
    b"<Delete>&unknown;</Delete>",
    b"<a>" * 100_000,
    b"<a>" * 9 + b"</a>" * 9,
    b"<Delete>" + b"<Object/>" * 210_000 + b"</Delete>",
    b"<Delete",
    b"<Delete></Delet>",
    b"<Delete></Delete><Delete></Delete>",
    b"",
    b"\xff\xfe<\x00a\x00",
    b"<Delete>\xff</Delete>",
    b'<?xml version="1.1"?><Delete>',
]


@pytest.mark.parametrize("bomb", BOMBS, ids=range(len(BOMBS)))
def test_a_document_that_is_a_trap_is_refused(bomb: bytes) -> None:
    with pytest.raises(S3Error) as caught:
        parse(bomb, root="Delete", bytes_max=DELETE_BYTES_MAX)
    assert caught.value.code == "MalformedXML"


def test_elements_are_counted_and_stand_in_at_most_eight_others() -> None:
    def nested(depth: int) -> bytes:
        return b"<Delete>" + b"<a>" * (depth - 1) + b"</a>" * (depth - 1) + b"</Delete>"

    assert parse(nested(8), root="Delete").name == "Delete"
    for trap in (nested(9), nested(1000), b"<Delete>" + b"<a/>" * 210_000 + b"</Delete>"):
        with pytest.raises(S3Error, match="too many elements or is nested too deeply"):
            parse(trap, root="Delete", bytes_max=DELETE_BYTES_MAX)


def test_billions_of_laughs_are_refused_at_the_first() -> None:
    entities = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 30))
    bomb = f'<!DOCTYPE l [<!ENTITY l0 "ha">{entities}]><Delete>&l29;</Delete>'.encode()
    for parser in PARSERS:
        assert code_of(parser, bomb) == "MalformedXML"


def test_a_document_that_is_too_long_is_not_looked_at() -> None:
    bounds = (DELETE_BYTES_MAX, COMPLETE_BYTES_MAX, SMALL_BYTES_MAX, SMALL_BYTES_MAX)
    for parser, bytes_max in zip(PARSERS, bounds, strict=True):
        assert code_of(parser, b"<" + b"a" * 10_000_000) == "MaxMessageLengthExceeded"
        assert code_of(parser, b"<" + b"a" * bytes_max) == "MaxMessageLengthExceeded"
        assert code_of(parser, b"<" + b"a" * (bytes_max - 1)) == "MalformedXML"


@given(data=st.binary(max_size=60) | st.text(alphabet="<>/!?[]&;#x1 DeltObjcK", max_size=60))
def test_nothing_but_an_error_of_s3_comes_of_a_document_however_bad(data: bytes | str) -> None:
    for parser in PARSERS:
        try:
            parser(data.encode() if isinstance(data, str) else data)
        except S3Error as error:
            assert error.code in ("MalformedXML", "NotImplemented") or "Illegal" in error.code


def test_text_is_escaped_so_that_no_parser_changes_it() -> None:
    assert escaped("plain/key-1.txt€") == "plain/key-1.txt€"
    assert escaped("<&>\"'") == "&lt;&amp;&gt;&quot;'"
    assert escaped("\r\n\t\x01\x7f\x85\uffff") == "&#xD;\n\t&#x1;&#x7F;&#x85;&#xFFFF;"
