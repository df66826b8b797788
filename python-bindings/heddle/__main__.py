# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python -m heddle {generate,report,quickstart} MODEL …"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any

from . import HeddleError, Session, compile
from ._session import SAMPLING, sampling_input
from ._tools import compile_report

PROMPT = "What is the capital of France?"


def _mib(count: int) -> str:
    return f"{count / 2**20:.2f} MiB"


def _note(message: str) -> None:
    """Progress goes to standard error: standard output is the answer."""
    print(f"heddle: {message}", file=sys.stderr, flush=True)


def _print_report(report: dict[str, Any]) -> None:
    for rank in report["ranks"]:
        print(f"each of {rank['count']} ranks holds "
              f"{_mib(rank['arena_bytes'])}:")
        for part in ("parameter", "state", "activation", "communication",
                     "workspace", "holes"):
            print(f"  {part:14} {_mib(rank[part + '_bytes']):>12}")
    if not report["collectives"]:
        print("collectives: none")
        return
    print("collectives of one execution, bytes of each rank:")
    for row in report["collectives"]:
        print(f"  {row['variant']:8} {row['kind']:11} "
              f"{{{','.join(row['axes'])}}} {row['count']:3} x, in all "
              f"{_mib(row['bytes']):>10}  after {row['location']}")


class _Answer:
    """Streams an answer to standard output and keeps the times of its ids."""

    def __init__(self, text: Any, prompt: list[int]) -> None:
        from . import _text
        self._end = text.end
        self._stream = _text.Stream(text, prompt)
        self.times = [time.monotonic()]

    def add(self, token: int) -> bool:
        self.times.append(time.monotonic())
        if token in self._end:
            return False
        print(self._stream.add(token), end="", flush=True)
        return True

    def finish(self) -> None:
        print(self._stream.finish(), flush=True)

    def speed(self, prompt: int) -> str:
        first = self.times[1] - self.times[0]
        decode = self.times[-1] - self.times[1]
        text = f"prompt: {prompt} tokens in {first:.2f} s"
        if decode > 0:
            count = len(self.times) - 2
            text += (f"; answer: {count} tokens after the first, "
                     f"{count / decode:.1f} tokens/s")
        return text


def _prompt_ids(arguments: argparse.Namespace) -> tuple[Any, list[int]]:
    try:
        from . import _text
    except ImportError as error:
        raise ValueError(f"expected the Python package tokenizers: {error}"
                         ) from error
    text = _text.load(arguments.model)
    ids = (text.encode(arguments.prompt) if arguments.raw
           else text.encode_chat(arguments.prompt))
    if not ids:
        raise ValueError("--prompt: expected text, got none")
    return text, ids


def _generate(arguments: argparse.Namespace) -> int:
    quick = arguments.command == "quickstart"
    sampling = {name: getattr(arguments, name) for name in SAMPLING}
    for name, value in sampling.items():
        sampling_input(name, value, batch=1)  # refused before anything starts
    text, prompt = _prompt_ids(arguments)
    _note(f"compiling {os.path.basename(os.path.normpath(arguments.model))} "
          f"for {arguments.mesh}")
    start = time.monotonic()
    bundle = compile(arguments.model, mesh=arguments.mesh, seq=arguments.seq)
    _note(f"compiled in {time.monotonic() - start:.1f} s")
    if quick:
        _print_report(bundle.report)
        sys.stdout.flush()
    start = time.monotonic()
    with Session(bundle, arguments.model, workers=arguments.workers) as session:
        _note(f"loaded the weights of {bundle.world_size} ranks in "
              f"{time.monotonic() - start:.1f} s")
        if quick:
            print(f"\n> {arguments.prompt}", flush=True)
        answer = _Answer(text, prompt)
        session.generate(prompt, arguments.max_new_tokens, answer.add,
                         **sampling)
        answer.finish()
    if quick:
        print(f"\n{answer.speed(len(prompt))} on {bundle.world_size} ranks")
    else:
        _note(answer.speed(len(prompt)))
    return 0


def _report(arguments: argparse.Namespace) -> int:
    _print_report(compile_report(arguments.model, arguments.mesh,
                                 seq=arguments.seq))
    return 0


def _add_sampling(command: argparse.ArgumentParser) -> None:
    for name, kind, default, summary in (
            ("temperature", float, 0.0,
             "0 takes the likeliest token every time; above it tokens are "
             "drawn, and the higher the more freely (%(default)s)"),
            ("top-k", int, 0,
             "draw from the K likeliest tokens only; 0 for all"),
            ("top-p", float, 1.0,
             "of those, from the fewest that hold this much of the "
             "probability; 1 for all"),
            ("min-p", float, 0.0,
             "of those, leave out what is less likely than this part of the "
             "likeliest; 0 for nothing"),
            ("seed", int, 0, "draws are a function of it (%(default)s)")):
        command.add_argument(f"--{name}", type=kind, default=default,
                             metavar="K" if kind is int else "X",
                             help=summary)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m heddle")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, function, summary in (
            ("generate", _generate, "compile, run and stream the answer"),
            ("report", _report, "what each rank will hold and send"),
            ("quickstart", _generate, "report, answer and speed in one go")):
        command = commands.add_parser(name, help=summary, description=summary)
        command.set_defaults(function=function)
        command.add_argument("model", metavar="MODEL",
                             help="Hugging Face folder or .gguf file")
        command.add_argument("--mesh", help="axes in rank order, as in tp=3",
                             default="tp=3" if name == "quickstart" else "tp=1")
        command.add_argument("--seq", type=int, default=512, metavar="N",
                             help="most tokens, prompt included (%(default)s)")
        if name == "report":
            continue
        command.add_argument("--prompt", required=name == "generate",
                             default=PROMPT)
        command.add_argument("--max-new-tokens", type=int, default=64,
                             metavar="N")
        _add_sampling(command)
        command.add_argument("--workers", type=int, default=0, metavar="N",
                             help="threads; 0 for one per processor")
        command.add_argument("--raw", action="store_true",
                             help="continue the text: no chat format")
    return parser


def main() -> int:
    """The command line; returns the exit status."""
    arguments = _parser().parse_args()
    try:
        return arguments.function(arguments)
    except (HeddleError, ValueError, OSError) as error:
        sys.stdout.flush()
        print(f"heddle: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
