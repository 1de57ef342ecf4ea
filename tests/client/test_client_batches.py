"""Batches as real clients wrote them, taken from the segments of a Kafka 4.3.1 broker, which set their
broker fields.
"""

import pytest

from kcoord.protocol.records.batch import Batch, has_valid_crc, split_batches
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.record import Record, plain_records, read_records
from kcoord.protocol.records.record_scan import scan_records

librdkafka = {
    Codec.NONE: """
        00000000000000000000008700000000024bc39d6f0000000000020000018bcfe568000000018bcfe56802ffffffffffffffffff
        ffffffffff000000033c000000013076616c75652076616c75652076616c75652076616c75652000540002020a6b65792d313076
        616c75652076616c75652076616c75652076616c7565200402680278026e01160004040a6b65792d320100
        """,
    Codec.GZIP: """
        000000000000000000000071000000000235b389fc0001000000020000018bcfe568000000018bcfe56802ffffffffffffffffff
        ffffffffff000000031f8b0800000000000003b36160606034284bcc294d55c0241942189898b8b2532b750d71aa6161ca60aa60
        ca6314636061012b3562640000052c8ec156000000
        """,
    # One raw block, without xerial's framing.
    Codec.SNAPPY: """
        0000000000000000000000660000000002367a80f50002000000020000018bcfe568000000018bcfe56802ffffffffffffffffff
        ffffffffff00000003562c3c000000013076616c7565204606002800540002020a6b65792d316224004c0402680278026e011600
        04040a6b65792d320100
        """,
    Codec.LZ4: """
        000000000000000000000074000000000207c661820003000000020000018bcfe568000000018bcfe56802ffffffffffffffffff
        ffffffffff0000000304224d1860408234000000ce3c000000013076616c7565200600bf00540002020a6b65792d31240006f005
        0402680278026e01160004040a6b65792d32010000000000
        """,
    Codec.ZSTD: """
        00000000000000000000006f0000000002ce5840020004000000020000018bcfe568000000018bcfe56802ffffffffffffffffff
        ffffffffff0000000328b52ffd0058ad0100b4023c000000013076616c75652000540002020a6b65792d310402680278026e0116
        0004040a6b65792d3201000200472d3e5e4902
        """,
}
java = {
    Codec.NONE: """
        00000000000000000000007700000000025c063c83000000000002000001a1e2670c84000001a1e2670ce7000000000000000000
        0000000000000000033a000000012e76616c75652076616c75652076616c75652076616c7565001000c60102010262003c00c601
        04012e76616c75652076616c75652076616c75652076616c756500
        """,
    Codec.GZIP: """
        0000000000000000000000630000000002e400d6df000100000002000001a1e267178d000001a1e2671808000000000000000100
        0000000000000000031f8b08000000000000ffb362606060d42b4bcc294d55c020190418be313231322531d800192cb8d50100c2
        5c2e6946000000
        """,
    Codec.SNAPPY: """
        00000000000000000000006a000000000224ae7f40000200000002000001a1e2672043000001a1e267208f000000000000000200
        00000000000000000382534e4150505900000000010000000100000025462c3a000000012e76616c7565204206003c0010009801
        02010262003c0098010401622800
        """,
    Codec.LZ4: """
        00000000000000000000006900000000023d370a9c000300000002000001a1e26728fd000001a1e267294a000000000000000300
        00000000000000000304224d1860408229000000cd3a000000012e76616c7565200600ff000010009a0102010262003c009a0104
        28000250616c75650000000000
        """,
    Codec.ZSTD: """
        00000000000000000000006100000000025ec0037b000400000002000001a1e267323f000001a1e267329d000000000000000400
        00000000000000000328b52ffd0058240100d83a000000012e76616c756520001000bc0102010262003c00bc010402004bd93573
        a103010000
        """,
}


def only_batch(text: str) -> Batch:
    (batch,) = split_batches(bytes.fromhex(text))
    assert has_valid_crc(batch)
    return batch


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_of_librdkafka_is_read(codec: Codec) -> None:
    batch = only_batch(librdkafka[codec])
    assert batch.header.codec == codec
    assert list(read_records(batch)) == [
        Record(offset=0, timestamp=1700000000000, key=None, value=b"value value value value "),
        Record(
            offset=1,
            timestamp=1700000000001,
            key=b"key-1",
            value=b"value value value value ",
            headers=(("h", b"x"), ("n", None)),
        ),
        Record(offset=2, timestamp=1700000000002, key=b"key-2", value=None),
    ]
    assert scan_records(plain_records(batch), 3).has_null_key


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_of_the_java_client_is_read(codec: Codec) -> None:
    batch = only_batch(java[codec])
    assert batch.header.codec == codec
    assert (batch.header.producer_epoch, batch.header.base_sequence) == (0, 0)
    found = list(read_records(batch))
    assert [record.value for record in found] == [b"value value value value", b"b", b"value value value value"]
    assert max(record.timestamp for record in found) == batch.header.max_timestamp
