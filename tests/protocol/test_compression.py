"""The codecs: the framings that Java reads, and untrusted input with wrong sizes."""

import struct

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcoord.protocol.records.compression import BadCompression, Codec, DecompressedTooLarge, compress, decompress

packing = [codec for codec in Codec if codec]
texts = st.binary(max_size=300) | st.builds(
    lambda part, times: part * times, st.binary(max_size=50), st.integers(0, 5000)
)


@settings(deadline=None)
@given(codec=st.sampled_from(Codec), plain=texts)
def test_what_is_compressed_is_decompressed(codec: Codec, plain: bytes) -> None:
    assert decompress(codec, compress(codec, plain), limit=300_000) == plain


@settings(deadline=None)
@given(codec=st.sampled_from(packing), noise=st.binary(max_size=200))
def test_noise_is_only_ever_bad_compression(codec: Codec, noise: bytes) -> None:
    try:
        plain = decompress(codec, noise, limit=100_000)
    except BadCompression:
        return
    assert len(plain) <= 100_000


@pytest.mark.parametrize("codec", packing)
@pytest.mark.parametrize("size", [1000, 70_000, 1_000_000])
def test_a_limit_is_kept_to_the_byte(codec: Codec, size: int) -> None:
    packed = compress(codec, bytes(size))
    assert len(decompress(codec, packed, limit=size)) == size
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, packed, limit=size - 1)


@pytest.mark.parametrize("codec", packing)
def test_what_is_cut_short_is_bad_compression(codec: Codec) -> None:
    packed = compress(codec, b"some text " * 100)
    with pytest.raises(BadCompression):
        decompress(codec, packed[:-9], limit=10_000)


def test_lz4_frames_have_independent_blocks_as_java_demands() -> None:
    packed = compress(Codec.LZ4, bytes(200_000))
    has_independent_blocks = packed[4] & 0x20 != 0
    assert has_independent_blocks
    assert bytes(cramjam.lz4.decompress(packed)) == bytes(200_000)


def test_snappy_is_written_in_xerials_blocks() -> None:
    packed = compress(Codec.SNAPPY, bytes(100_000))
    assert packed.startswith(b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1))


@pytest.mark.parametrize(
    "packed",
    [
        pytest.param(b"\xff\xff\xff\xff\x0f" + b"a" * 10, id="a raw block that claims 4 GB"),
        pytest.param(compress(Codec.SNAPPY, b"")[:16] + struct.pack(">i", 2**31 - 1) + b"a", id="a long block"),
        pytest.param(compress(Codec.SNAPPY, b"")[:16] + struct.pack(">i", -1) + b"a", id="a negative block"),
        pytest.param(compress(Codec.SNAPPY, b"")[:16] + b"\0\0", id="half a size"),
    ],
)
def test_a_snappy_size_that_lies_is_not_believed(packed: bytes) -> None:
    with pytest.raises(BadCompression):
        decompress(Codec.SNAPPY, packed, limit=2**32)


def test_a_zstd_frame_that_claims_a_terabyte_is_not_believed() -> None:
    frame = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**40) + b"\1\0\0"
    with pytest.raises(BadCompression):
        decompress(Codec.ZSTD, frame, limit=1_000_000)
