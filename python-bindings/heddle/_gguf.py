# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Metadata of GGUF files: enough to find a model's tokenizer."""

from __future__ import annotations

import struct
from typing import Any, BinaryIO

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f",
            7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
# Files are untrusted: nothing legal is larger.
_MOST_ITEMS = 1 << 24


def _read(file: BinaryIO, count: int) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise ValueError("gguf: expected %d more bytes, got %d"
                         % (count, len(data)))
    return data


def _number(file: BinaryIO, form: str) -> Any:
    return struct.unpack(form, _read(file, struct.calcsize(form)))[0]


def _string(file: BinaryIO) -> str:
    length = _number(file, "<Q")
    if length > _MOST_ITEMS:
        raise ValueError("gguf: expected a string, got %d bytes" % length)
    return _read(file, length).decode("utf-8", errors="replace")


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _string(file)
    if kind == _ARRAY:
        inner, count = _number(file, "<I"), _number(file, "<Q")
        if inner == _ARRAY or count > _MOST_ITEMS:
            raise ValueError("gguf: expected a flat array, got %d items"
                             % count)
        if inner == _STRING:
            return [_string(file) for _ in range(count)]
        if inner in _SCALARS:
            form = "<%d%s" % (count, _SCALARS[inner][1])
            return list(struct.unpack(form,
                                      _read(file, struct.calcsize(form))))
        raise ValueError("gguf: expected an element type, got %d" % inner)
    if kind not in _SCALARS:
        raise ValueError("gguf: expected a value type, got %d" % kind)
    return _number(file, _SCALARS[kind])


def read_metadata(path: str) -> dict[str, Any]:
    """All key-value pairs of a GGUF file of version 2 or 3.

    Numbers, text and flat lists of them. Raises ValueError for another or a
    damaged file, OSError where it cannot be read.
    """
    with open(path, "rb") as file:
        if _read(file, 4) != b"GGUF":
            raise ValueError("%s: expected a GGUF file" % path)
        version = _number(file, "<I")
        if version not in (2, 3):
            raise ValueError("%s: expected GGUF version 2 or 3, got %d"
                             % (path, version))
        _number(file, "<Q")  # tensors
        count = _number(file, "<Q")
        if count > _MOST_ITEMS:
            raise ValueError("%s: expected fewer keys, got %d" % (path, count))
        result = {}
        for _ in range(count):
            key = _string(file)
            result[key] = _value(file, _number(file, "<I"))
        return result
