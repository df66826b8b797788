# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Running bundles: inputs, outputs and states as NumPy arrays."""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any, Callable, Optional, Sequence, TypeVar, Union

import numpy as np

from . import _native
from ._errors import INVALID_ARGUMENT, HeddleError
from ._tools import Bundle

# heddle::rt::DType by number. bf16 (2) has no NumPy type.
_BF16 = 2
_DTYPES = {0: np.float32, 1: np.float16, 3: np.int8, 4: np.int16, 5: np.int32,
           6: np.int64, 7: np.uint8, 8: np.float64, 9: np.bool_}
_NUMBERS = {np.dtype(kind): number for number, kind in _DTYPES.items()}


_Number = TypeVar("_Number", int, float)
_Each = Union[_Number, Sequence[_Number]]  # for all sequences, or for each
# Inputs that say how to sample: what is expected, the range, the type.
SAMPLING = {
    "temperature": ("numbers from 0 to 1000", lambda v: 0 <= v <= 1000, float),
    "top_k": ("whole numbers from 0 to 2147483647",
              lambda v: 0 <= v < 2**31, int),
    "top_p": ("numbers above 0 and at most 1", lambda v: 0 < v <= 1, float),
    "min_p": ("numbers from 0 to 1", lambda v: 0 <= v <= 1, float),
    "seed": ("whole numbers from 0 to 4294967295",
             lambda v: 0 <= v < 2**32, int)}


def sampling_input(name: str, value: Any, batch: int) -> np.ndarray:
    """The input of `batch` elements from one value or one for each sequence."""
    what, accepts, kind = SAMPLING[name]
    values = list(value) if np.ndim(value) else [value] * batch
    if len(values) != batch:
        raise _refuse(f"{name}: expected one value, or {batch} of them, got "
                      f"{len(values)}")
    def is_good(v: Any) -> bool:
        if not isinstance(v, (int, float, np.integer, np.floating)):
            return False
        if kind is int:
            return bool(accepts(v)) and v == int(v)
        with np.errstate(over="ignore"):
            return bool(accepts(np.float32(v)))  # what the input will hold

    for v in values:
        if not is_good(v):
            raise _refuse(f"{name}: expected {what}, got {v}")
    if kind is int:
        return np.array(values, np.int64).astype(np.uint32).view(np.int32)
    return np.array(values, np.float32)


def _refuse(message: str) -> HeddleError:
    return HeddleError(message, INVALID_ARGUMENT)


class Session:
    """All ranks of a bundle in this process, with weights loaded.

    A session is used by one thread at a time. Also a context manager.
    """

    def __init__(self, bundle: Bundle, weights: str | os.PathLike[str], *,
                 workers: int = 0, schedule_seed: int = 0,
                 trace_path: Optional[str] = None,
                 poison: Optional[int] = None,
                 progress: Optional[Callable[[int, int], Any]] = None) -> None:
        """Creates the ranks and loads their weights.

        Args:
            bundle: from `heddle.compile`, or `heddle.Bundle(path)`.
            weights: a folder, a .safetensors or .gguf file, or "random:SEED".
            workers: worker threads; 0 for one per processor.
            schedule_seed: order of ready tasks; 0 for first come, first served.
            trace_path: file that `write_trace` writes.
            poison: 32 bits to fill fresh memory with, to find reads of memory
                that was never written.
            progress: called with bytes done and bytes in all.

        Raises:
            HeddleError: with the runtime's message.
        """
        lib = _native.library()
        self.bundle = bundle
        options = _native.SessionOptions(
            struct_size=ctypes.sizeof(_native.SessionOptions), workers=workers,
            poisoned=poison is not None, poison=poison or 0,
            schedule_seed=schedule_seed,
            trace_path=_native.text(trace_path) if trace_path else None)
        handle = ctypes.c_void_p()
        _native.check(lib.heddle_session_create(
            bundle.handle, ctypes.byref(options), ctypes.byref(handle)))
        self._handle = handle
        self._free = weakref.finalize(self, lib.heddle_session_free, handle)
        try:
            self._load(weights, progress)
        except BaseException:
            self.close()
            raise

    def _load(self, weights: str | os.PathLike[str],
              progress: Optional[Callable[[int, int], Any]]) -> None:
        lib = _native.library()
        source = ctypes.c_void_p()
        _native.check(lib.heddle_weights_open(_native.text(weights),
                                              ctypes.byref(source)))
        raised: list[BaseException] = []

        def report(_user: Any, done: int, total: int) -> None:
            try:
                if progress and not raised:
                    progress(done, total)
            except BaseException as error:  # cannot cross C
                raised.append(error)

        callback = _native.PROGRESS(report) if progress else _native.PROGRESS()
        try:
            _native.check(lib.heddle_session_load_weights(
                self._live(), source, callback, None))
        finally:
            lib.heddle_weights_free(source)
        if raised:
            raise raised[0]

    def _live(self) -> ctypes.c_void_p:
        if not self._free.alive:
            raise _refuse("expected an open session, got a closed one")
        return self._handle

    def close(self) -> None:
        """Ends the session; a second call does nothing."""
        self._free()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_error: Any) -> None:
        self.close()

    def set_input(self, program: str, name: str, value: Any, *,
                  bf16: bool = False) -> None:
        """Copies an input of a program.

        The array's shape is that of the whole input, not of one rank's part.
        With `bf16` the value is rounded to bfloat16 first. Raises HeddleError
        for an unknown name, another shape or another element type.
        """
        array = np.asarray(value)
        shape = array.shape  # ascontiguousarray makes a scalar a vector
        if bf16:
            array, number = to_bf16(array), _BF16
        else:
            if array.dtype not in _NUMBERS:
                raise _refuse(f"input '{name}': expected an element type of "
                              f"Heddle, got {array.dtype}")
            number = _NUMBERS[array.dtype]
            array = np.ascontiguousarray(array)
        sizes = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        _native.check(_native.library().heddle_session_set_input(
            self._live(), _native.text(program), _native.text(name), number,
            sizes, len(shape), array.ctypes.data, array.nbytes))

    def set_param(self, program: str, name: str, value: int) -> None:
        """Sets an integer parameter of a program. Raises HeddleError."""
        _native.check(_native.library().heddle_session_set_param(
            self._live(), _native.text(program), _native.text(name), value))

    def run(self, program: str) -> None:
        """Runs a program on all ranks and waits. Raises HeddleError."""
        _native.check(_native.library().heddle_session_run(
            self._live(), _native.text(program)))

    def output(self, program: str, name: str) -> np.ndarray:
        """A copy of a whole output of the last run. Raises HeddleError.

        bfloat16 comes as float32.
        """
        tensor = ctypes.c_void_p()
        _native.check(_native.library().heddle_session_output(
            self._live(), _native.text(program), _native.text(name),
            ctypes.byref(tensor)))
        return _take(tensor)

    def state(self, name: str) -> np.ndarray:
        """A copy of a state, such as a cache. Raises HeddleError.

        bfloat16 comes as float32.
        """
        tensor = ctypes.c_void_p()
        _native.check(_native.library().heddle_session_state(
            self._live(), _native.text(name), ctypes.byref(tensor)))
        return _take(tensor)

    def reset_states(self) -> None:
        """Puts every state back to its first value. Raises HeddleError."""
        _native.check(_native.library().heddle_session_reset_states(
            self._live()))

    def write_trace(self) -> None:
        """Writes the trace to `trace_path`. Raises HeddleError."""
        _native.check(_native.library().heddle_session_write_trace(
            self._live()))

    def generate(self, prompt_ids: Sequence[int], max_new_tokens: int = 32,
                 on_token: Optional[Callable[[int], Any]] = None, *,
                 temperature: float = 0.0, top_k: int = 0, top_p: float = 1.0,
                 min_p: float = 0.0, seed: int = 0) -> list[int]:
        """Continuation of one prompt; returns the new ids.

        `on_token` sees every new id as it comes; generation ends early, with
        that id as the last, when it returns False. Needs a bundle of program
        "generate" and batch 1. Raises HeddleError for an empty prompt, an id
        outside the vocabulary, or more tokens than the bundle's seq.

        Args:
            temperature: 0 takes the likeliest id every time; above it ids are
                drawn, and the higher the more freely.
            top_k: draw from so many of the likeliest ids; 0 for all.
            top_p: of those, from the fewest that hold so much of the
                probability; 1 for all.
            min_p: of those, leave out what is less likely than this part of
                the likeliest; 0 for nothing.
            seed: draws are a function of it.
        """
        if self._fact("batch") != 1:
            raise _refuse("expected a bundle of batch 1, got "
                          f"{self._fact('batch')}: use generate_batch")
        step = (lambda ids: on_token(ids[0])) if on_token else None
        return self.generate_batch(
            [prompt_ids], max_new_tokens, step, temperature=temperature,
            top_k=top_k, top_p=top_p, min_p=min_p, seed=seed)[0]

    def generate_batch(self, prompts: Sequence[Sequence[int]],
                       max_new_tokens: int = 32,
                       on_tokens: Optional[Callable[[list[int]], Any]] = None,
                       *, temperature: _Each[float] = 0.0,
                       top_k: _Each[int] = 0, top_p: _Each[float] = 1.0,
                       min_p: _Each[float] = 0.0, seed: _Each[int] = 0
                       ) -> list[list[int]]:
        """As `generate`, for as many prompts as the bundle's batch.

        `on_tokens` sees the newest id of each sequence after every step. How to
        sample is given once for all sequences, or for each of them; sequences
        with the same seed draw differently all the same.
        """
        batch, prefills = self._fact("batch"), self._prefills()
        sizes = self._check_prompts(prompts, self._fact("sequence"),
                                    max_new_tokens)
        sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p,
                    "min_p": min_p, "seed": seed}
        for name, value in sampling.items():
            array = sampling_input(name, value, batch)
            for program in ("decode", *prefills):
                self.set_input(program, name, array)
        self.reset_states()
        newest = np.zeros(batch, np.int32)
        # Chunks of the prompts; a sequence that has ended sends invalid rows,
        # and its next token is the one of the chunk that held its end.
        begin, longest = 0, int(sizes.max())
        while begin < longest:
            # The smallest program that holds what is left, or the largest.
            program, chunk = min(
                prefills.items(),
                key=lambda item: (item[1] < longest - begin,
                                  abs(item[1] - (longest - begin))))
            tokens = np.zeros((batch, chunk), np.int32)
            positions = np.full((batch, chunk), -1, np.int32)
            rows = np.clip(sizes - begin, 0, chunk)
            for b, count in enumerate(rows):
                tokens[b, :count] = prompts[b][begin:begin + count]
                positions[b, :count] = np.arange(begin, begin + count)
            self.set_param(program, "valid_rows", int(rows.max()))
            ids = self._step(program, tokens, positions,
                             np.minimum(sizes, begin + chunk),
                             np.maximum(rows - 1, 0))
            ends = (rows > 0) & (begin + rows == sizes)
            newest = np.where(ends, ids, newest).astype(np.int32)
            begin += chunk
        result: list[list[int]] = [[] for _ in range(batch)]
        for i in range(max_new_tokens):
            for ids, token in zip(result, newest.tolist()):
                ids.append(token)
            if on_tokens and on_tokens(newest.tolist()) is False:
                break
            if i + 1 < max_new_tokens:
                newest = self._step("decode", newest[:, None],
                                    (sizes + i)[:, None], sizes + i + 1,
                                    np.zeros(batch))
        return result

    def _prefills(self) -> dict[str, int]:
        """Rows of each prefill program."""
        programs = self.bundle.interface.get("prefill")
        if not isinstance(programs, list) or not programs:
            raise HeddleError("bundle: expected a list of 'prefill' programs in "
                              f"its interface, got {programs!r}")
        return {program["name"]: program["rows"] for program in programs}

    def _fact(self, key: str) -> int:
        """A positive number of the bundle's interface."""
        interface = self.bundle.interface
        if interface.get("program") != "generate":
            raise _refuse("expected a bundle compiled with program 'generate', "
                          f"got {interface.get('program')!r}")
        value = interface.get(key)
        if not isinstance(value, int) or value < 1:
            raise HeddleError(f"bundle: expected a positive '{key}' in its "
                              "interface", 3)
        return value

    def _check_prompts(self, prompts: Sequence[Sequence[int]], capacity: int,
                       count: int) -> np.ndarray:
        """Lengths of the prompts [batch]."""
        batch, vocabulary = self._fact("batch"), self._fact("vocabulary")
        if count < 1:
            raise _refuse(f"expected at least one new token, got {count}")
        if len(prompts) != batch:
            raise _refuse(f"expected {batch} prompts, got {len(prompts)}")
        for prompt in prompts:
            if len(prompt) == 0:
                raise _refuse("expected at least one token in every prompt")
            if len(prompt) + count > capacity:
                raise _refuse("expected prompt and new tokens to fit the "
                              f"bundle's seq {capacity}, got {len(prompt)} + "
                              f"{count}")
            for token in prompt:
                if not 0 <= token < vocabulary:
                    raise _refuse("expected ids below the vocabulary of "
                                  f"{vocabulary}, got {token}")
        return np.array([len(prompt) for prompt in prompts], np.int64)

    def _step(self, program: str, tokens: np.ndarray, positions: np.ndarray,
              lengths: np.ndarray, last: np.ndarray) -> np.ndarray:
        """One run; tokens and positions [batch, rows], the rest [batch]."""
        batch, blocks = len(tokens), self._fact("blocks")
        table = np.arange(batch * blocks).reshape(batch, blocks)
        for name, value in (("tokens", tokens), ("positions", positions),
                            ("blocks", table), ("lengths", lengths),
                            ("last", last.reshape(batch, 1))):
            self.set_input(program, name, value.astype(np.int32))
        self.run(program)
        return self.output(program, "next").reshape(batch)


def to_bf16(values: np.ndarray) -> np.ndarray:
    """The 16 bits of each value as bfloat16; ties round to even."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return (np.where(nan, bits | 0x400000, rounded) >> 16).astype(np.uint16)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    """The float32 of each bfloat16."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _take(tensor: ctypes.c_void_p) -> np.ndarray:
    """The array of a heddle_tensor, which is freed."""
    lib = _native.library()
    try:
        number = lib.heddle_tensor_dtype(tensor)
        sizes = lib.heddle_tensor_shape(tensor)
        shape = [sizes[i] for i in range(lib.heddle_tensor_rank(tensor))]
        length = lib.heddle_tensor_bytes(tensor)
        data = (ctypes.string_at(lib.heddle_tensor_data(tensor), length)
                if length else b"")
    finally:
        lib.heddle_tensor_free(tensor)
    if number == _BF16:
        return from_bf16(np.frombuffer(data, np.uint16)).reshape(shape)
    if number not in _DTYPES:
        raise HeddleError(f"expected an element type, got {number}", 7)
    return np.frombuffer(data, _DTYPES[number]).reshape(shape).copy()
