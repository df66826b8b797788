# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compiler as a function, and bundles."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import tempfile
import weakref
from typing import Any, Optional, Sequence

from . import _native
from ._errors import NOT_FOUND, HeddleError

PathLike = str | os.PathLike[str]


def compiler_path() -> str:
    """heddle-compile of the build folder, or else of PATH.

    Raises HeddleError where there is none.
    """
    path = os.path.join(_native.build_folder(), "bin", "heddle-compile")
    if os.access(path, os.X_OK):
        return path
    found = (None if os.environ.get("HEDDLE_BUILD")
             else shutil.which("heddle-compile"))
    if not found:
        raise HeddleError(f"expected the compiler at {path}: build the target "
                          "heddle-compile, or set HEDDLE_BUILD to a build "
                          "folder", NOT_FOUND)
    return found


class Bundle:
    """A compiled model for one mesh, as a file that the runtime opens.

    Attributes:
        path: the file. A bundle that `compile` made without `output` lives in
            a temporary folder as long as this object; `save` keeps a copy.
        report: what each rank holds and sends, as `heddle-compile --report
            json` prints it; sizes are bytes.
        interface: facts about the model for its host, such as "program",
            "batch", "sequence" and "vocabulary"; empty where there are none.
        world_size: the number of ranks.
    """

    def __init__(self, path: PathLike) -> None:
        """Opens a bundle. Raises HeddleError if it is missing or damaged."""
        self._folder: Optional[tempfile.TemporaryDirectory[str]] = None
        self.path = os.fspath(path)
        lib = _native.library()
        handle = ctypes.c_void_p()
        _native.check(lib.heddle_bundle_open(_native.text(self.path),
                                             ctypes.byref(handle)))
        self.handle = handle
        weakref.finalize(self, lib.heddle_bundle_free, handle)
        self.world_size = int(lib.heddle_bundle_world_size(handle))
        self.report: dict[str, Any] = self._json(self.section("contract"),
                                                 "report")
        self.interface: dict[str, Any] = self._json(
            lib.heddle_bundle_interface(handle), "interface")

    def _json(self, data: bytes, what: str) -> dict[str, Any]:
        try:
            value = json.loads(data) if data else {}
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise HeddleError(f"{self.path}: expected its {what} to be JSON", 3)
        return value

    def section(self, name: str) -> bytes:
        """The bytes of a section, such as "contract"; b"" where absent."""
        data, length = ctypes.c_void_p(), ctypes.c_size_t()
        _native.library().heddle_bundle_section(
            self.handle, _native.text(name), ctypes.byref(data),
            ctypes.byref(length))
        return ctypes.string_at(data, length.value) if length.value else b""

    def save(self, path: PathLike) -> None:
        """Copies the bundle to a file. Raises OSError where that fails."""
        shutil.copyfile(self.path, path)

    def __repr__(self) -> str:
        return f"heddle.Bundle({self.path!r}, ranks={self.world_size})"


def compile_report(model: PathLike, mesh: str = "tp=1", *, seq: int = 512,
                   options: Sequence[str] = ()) -> dict[str, Any]:
    """The report alone: no bundle is written and no runtime is needed."""
    return _compile([os.fspath(model), "--mesh", mesh, "--seq", str(seq),
                     *options])


def _compile(arguments: list[str]) -> dict[str, Any]:
    command = [compiler_path(), *arguments, "--report", "json"]
    done = subprocess.run(command, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise HeddleError(done.stderr.strip() or
                          f"heddle-compile ended with {done.returncode}")
    return json.loads(done.stdout)


def compile(model: PathLike, *, mesh: str = "tp=1", program: str = "generate",
            output: Optional[PathLike] = None, batch: int = 1, seq: int = 512,
            chunk: Optional[int] = None, strategy: Optional[str] = None,
            layout: Optional[str] = None,
            weights: str = "keep", result: Optional[str] = None,
            cpu: Optional[str] = None, memory_budget: Optional[str] = None,
            options: Sequence[str] = ()) -> Bundle:
    """Compiles a model for a mesh of ranks.

    Args:
        model: a Hugging Face folder or config.json, a .gguf file, or MLIR text
            (.mlir). Weights are not read.
        mesh: axes in rank order, the last fastest, as in "dp=2,tp=4".
        program: "generate" or "forward".
        output: file for the bundle; None for a temporary one.
        batch: sequences.
        seq: tokens of a forward; most tokens of a generated sequence, prompt
            included.
        chunk: tokens that prefill takes at once.
        strategy: as in "tensor(tp);data(dp)".
        layout: of the tokens over a ring: "zigzag" (the default), "striped",
            "contiguous" or "cyclic".
        weights: type of stored weights: "keep", "f32", "bf16" or "q8_0".
        result: what a forward gives: "logits", "last" or "hidden".
        cpu: "host", "x86-64-v3" or "x86-64-v4".
        memory_budget: largest arena of a rank, as in "80GiB".
        options: further arguments of heddle-compile.

    Raises:
        HeddleError: with the compiler's message.
    """
    folder = None if output else tempfile.TemporaryDirectory(prefix="heddle-")
    path = os.fspath(output) if output else os.path.join(folder.name,
                                                         "model.heddle")
    arguments = [os.fspath(model), "--mesh", mesh, "--program", program,
                 "--batch", str(batch), "--seq", str(seq), "--weights",
                 weights, "-o", path]
    for name, value in (("--chunk", chunk), ("--strategy", strategy),
                        ("--layout", layout),
                        ("--output", result), ("--cpu", cpu),
                        ("--memory-budget", memory_budget)):
        if value is not None:
            arguments += [name, str(value)]
    _compile([*arguments, *options])
    bundle = Bundle(path)
    bundle._folder = folder  # removed with the bundle
    return bundle
