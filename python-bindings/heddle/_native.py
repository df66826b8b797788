# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The runtime's C interface (heddle_rt/heddle.h) through ctypes."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_size_t, c_void_p
from typing import Any, Optional

from ._errors import NOT_FOUND, HeddleError

LIBRARY = "libheddle_rt.so"
PROGRESS = ctypes.CFUNCTYPE(None, c_void_p, c_int64, c_int64)


class SessionOptions(ctypes.Structure):
    """heddle_session_options."""

    _fields_ = [("struct_size", c_size_t), ("workers", c_int32),
                ("poisoned", c_int32), ("poison", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32),
                ("schedule_seed", ctypes.c_uint64), ("trace_path", c_char_p)]


# Result and argument types; a result of c_void_p is a heddle_status unless the
# name says otherwise.
_TEXT, _HANDLE, _OUT = c_char_p, c_void_p, POINTER(c_void_p)
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "heddle_status_code": (ctypes.c_int, [_HANDLE]),
    "heddle_status_message": (_TEXT, [_HANDLE]),
    "heddle_status_free": (None, [_HANDLE]),
    "heddle_bundle_open": (_HANDLE, [_TEXT, _OUT]),
    "heddle_bundle_free": (None, [_HANDLE]),
    "heddle_bundle_world_size": (c_int64, [_HANDLE]),
    "heddle_bundle_section": (None, [_HANDLE, _TEXT, POINTER(c_void_p),
                                     POINTER(c_size_t)]),
    "heddle_bundle_interface": (_TEXT, [_HANDLE]),
    "heddle_weights_open": (_HANDLE, [_TEXT, _OUT]),
    "heddle_weights_free": (None, [_HANDLE]),
    "heddle_session_create": (_HANDLE, [_HANDLE, POINTER(SessionOptions),
                                        _OUT]),
    "heddle_session_free": (None, [_HANDLE]),
    "heddle_session_load_weights": (_HANDLE, [_HANDLE, _HANDLE, PROGRESS,
                                              c_void_p]),
    "heddle_session_reset_states": (_HANDLE, [_HANDLE]),
    "heddle_session_set_param": (_HANDLE, [_HANDLE, _TEXT, _TEXT, c_int64]),
    "heddle_session_set_input": (_HANDLE, [
        _HANDLE, _TEXT, _TEXT, c_int32, POINTER(c_int64), c_size_t, c_void_p,
        c_size_t]),
    "heddle_session_run": (_HANDLE, [_HANDLE, _TEXT]),
    "heddle_session_output": (_HANDLE, [_HANDLE, _TEXT, _TEXT, _OUT]),
    "heddle_session_state": (_HANDLE, [_HANDLE, _TEXT, _OUT]),
    "heddle_session_write_trace": (_HANDLE, [_HANDLE]),
    "heddle_tensor_dtype": (c_int32, [_HANDLE]),
    "heddle_tensor_rank": (c_size_t, [_HANDLE]),
    "heddle_tensor_shape": (POINTER(c_int64), [_HANDLE]),
    "heddle_tensor_data": (c_void_p, [_HANDLE]),
    "heddle_tensor_bytes": (c_size_t, [_HANDLE]),
    "heddle_tensor_free": (None, [_HANDLE]),
}


def build_folder() -> str:
    """$HEDDLE_BUILD, or the folder `build` beside the package's folder."""
    here = os.path.dirname(os.path.abspath(__file__))
    return os.environ.get("HEDDLE_BUILD") or os.path.normpath(
        os.path.join(here, "..", "..", "build"))


def _library_path() -> str:
    path = os.path.join(build_folder(), "lib", LIBRARY)
    if os.path.exists(path):
        return path
    # A build that was asked for is not silently replaced by another one.
    found = (None if os.environ.get("HEDDLE_BUILD")
             else ctypes.util.find_library("heddle_rt"))
    if not found:
        raise HeddleError(f"expected the runtime at {path}: build the target "
                          "heddle_rt_shared, or set HEDDLE_BUILD to a build "
                          "folder", NOT_FOUND)
    return found


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """The runtime, loaded once. Raises HeddleError where it is not built."""
    path = _library_path()
    try:
        loaded = ctypes.CDLL(path)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise HeddleError(f"{path}: expected Heddle's runtime: {error}",
                          NOT_FOUND) from error
    return loaded


def check(status: Optional[int]) -> None:
    """Raises HeddleError with the message of a status, and frees it."""
    if not status:
        return
    lib = library()
    try:
        message = lib.heddle_status_message(status).decode("utf-8", "replace")
        code = lib.heddle_status_code(status)
    finally:
        lib.heddle_status_free(status)
    raise HeddleError(message, code)


def text(value: str | os.PathLike[str]) -> bytes:
    """UTF-8 for the C side. Raises ValueError for a null character."""
    data = os.fspath(value).encode("utf-8", "surrogateescape")
    if b"\0" in data:
        raise ValueError(f"expected text without nulls, got {value!r}")
    return data
