"""Each key that Apache Hudi's classes name is known here, by its exact name."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.peers.maven import HUDI, jar
from pyhudi.hudi_keys import FIXED, FIXED_READS, UNSERVED_FAMILIES, has_no_effect
from pyhudi.option_tables import READ_TABLE, WRITE_TABLE

OWN = {key.lower() for row in (*WRITE_TABLE, *READ_TABLE) for key in row.keys}
#: names of files, prefixes, and what Hudi's own code passes to itself: users never set these
NO_OPTIONS = {
    "hoodie.metadata",
    "hoodie.metaserver",
    "hoodie.metrics",
    "hoodie.properties",
    "hoodie.properties.backup",
    "hoodie.properties.updated",
    "hoodie.tablepath",
    "hoodie.instant.time",
    "hoodie.valid.commits.list",
    "hoodie.support.payload",
    "hoodie.vector.columns",
    "hoodie.read.columns.set",
    "hoodie.allow.multi.write.on.same.instant",
}
# Bytes of the entries of a class file's constant pool behind their tag; text (1) has its length.
SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4,
         19: 2, 20: 2}  # fmt: skip


def constants(code: bytes) -> Iterator[bytes]:
    """The texts in the constant pool of a class file."""
    (count,) = struct.unpack(">H", code[8:10])
    at, number = 10, 1
    while number < count:
        tag = code[at]
        if tag == 1:
            (length,) = struct.unpack(">H", code[at + 1 : at + 3])
            yield code[at + 3 : at + 3 + length]
            at += 3 + length
        else:
            at += 1 + SIZES[tag]
            number += tag in (5, 6)
        number += 1


def keys_of(bundle: Path) -> set[str]:
    """The texts of a bundle's classes that have the form of a key."""
    with zipfile.ZipFile(bundle) as file:
        classes = [each for each in file.namelist() if re.match(r"org/apache/.*\.class$", each)]
        codes = [code for each in classes if b"hoodie." in (code := file.read(each))]
    texts = {text for code in codes for text in constants(code)}
    keys = {text.decode() for text in texts if re.fullmatch(rb"hoodie\.[\w.-]*\w", text)}
    return {key.lower() for key in keys if not key.startswith("hoodie.internal.")}


@pytest.mark.parametrize("version", HUDI)
def test_each_key_that_hudis_classes_name_is_known(version: str) -> None:
    found = keys_of(jar(HUDI[version]))
    assert len(found) > 500
    unknown = {
        key for key in found - OWN - FIXED.keys() - FIXED_READS.keys() if not has_no_effect(key)
    }
    unknown = {key for key in unknown if not key.startswith(UNSERVED_FAMILIES)}
    assert unknown - NO_OPTIONS == set()
