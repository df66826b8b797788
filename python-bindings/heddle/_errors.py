# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The one exception of this package."""

from __future__ import annotations

from typing import Optional

INVALID_ARGUMENT, NOT_FOUND = 1, 2


class HeddleError(RuntimeError):
    """The compiler or the runtime refused; the text is its message.

    `code` is one of HEDDLE_… in heddle_rt/heddle.h (1 invalid argument, 2 not
    found, 3 data loss, 4 incompatible, 5 resource exhausted, 6 aborted, 7
    internal), or None where the compiler failed.
    """

    def __init__(self, message: str, code: Optional[int] = None) -> None:
        super().__init__(message)
        self.code = code
