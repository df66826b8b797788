# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Heddle from Python: compile a model for a mesh, read its report, run it.

    import heddle
    bundle = heddle.compile("model.gguf", mesh="tp=3", seq=512)
    print(bundle.report["ranks"])
    with heddle.Session(bundle, "model.gguf") as session:
        ids = session.generate([1, 2, 3], max_new_tokens=8)

The compiler and the runtime's library are looked for in $HEDDLE_BUILD, or else
in the folder `build` beside this package's folder, or else on the system.
"""

from ._errors import HeddleError
from ._session import Session
from ._tools import Bundle, compile

__all__ = ["Bundle", "HeddleError", "Session", "compile"]
