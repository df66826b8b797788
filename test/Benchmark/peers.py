#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures Heddle beside its peers and beside what the machine can do.

    peers.py --bin build/bin --llama-bench PATH -o results.json
    peers.py --table results.json

Every number is a ratio of two medians; the two sides take turns within one run,
because machines are shared and noisy. What is missing (a peer, the model) is
left out, with the reason. docs/benchmarks.md says what each number means.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"


class Missing(Exception):
    """A measurement that cannot be made, and why."""


class Bench:
    """Runs programs; keeps compiled bundles in a folder."""

    def __init__(self, options, folder):
        self.options = options
        self.folder = pathlib.Path(folder)
        self.threads = options.threads

    def run(self, command, **environment):
        env = dict(os.environ, OMP_NUM_THREADS=str(self.threads),
                   **environment)
        done = subprocess.run([str(word) for word in command], env=env,
                              capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            raise Missing(f"{pathlib.Path(command[0]).name} failed: "
                          f"{(done.stderr.strip() or done.returncode)}")
        return done.stdout

    def tool(self, name):
        path = pathlib.Path(self.options.bin) / name
        if not path.exists():
            raise Missing(f"no {name} in {self.options.bin}")
        return path

    def json(self, command, **environment):
        return json.loads(self.run(command, **environment).splitlines()[-1])

    def model(self):
        if not self.options.model or not os.path.exists(self.options.model):
            raise Missing(f"no {MODEL}; see tools/install-deps --model")
        return self.options.model

    def compile(self, name, source, *arguments):
        bundle = self.folder / f"{name}.heddle"
        if not bundle.exists():
            self.run([self.tool("heddle-compile"), source, *arguments, "-o",
                      bundle])
        return bundle

    def compile_text(self, name, file, **values):
        text = (HERE / "Inputs" / file).read_text()
        for key, value in values.items():
            text = text.replace(key, str(value))
        source = self.folder / f"{name}.mlir"
        source.write_text(text)
        return self.compile(name, source)

    def program(self, bundle, name):
        """Median seconds of one run."""
        result = self.json([self.tool("bundle_speed"), bundle, "--workers",
                            self.threads, "--runs", 5, "program", "--name",
                            name])
        return statistics.median(result["seconds"])

    def generate(self, bundle, prompt, new, key, runs=3):
        result = self.json([self.tool("bundle_speed"), bundle, "--weights",
                            self.model(), "--workers", self.threads, "--runs",
                            runs, "generate", "--prompt", prompt, "--new", new])
        return statistics.median(result[key])

    def llama(self, prompt, new):
        """Tokens per second of llama.cpp."""
        if not self.options.llama_bench:
            raise Missing("no --llama-bench")
        rows = json.loads(self.run(
            [self.options.llama_bench, "-m", self.model(), "-t", self.threads,
             "-p", prompt, "-n", new, "-r", 2, "-o", "json"]))
        return rows[0]["avg_ts"]

    def bandwidth(self, size, reads=1, writes=0):
        return self.json([self.tool("memory_bandwidth"), "--bytes", size,
                          "--reads", reads, "--writes", writes, "--threads",
                          self.threads, "--seconds", 0.3])["bytes_per_second"]

    def onednn(self, kind, rows, cols, depth, **environment):
        """FLOP/s of a product."""
        result = self.json([self.tool("onednn_rates"), "--type", kind, "--rows",
                            rows, "--cols", cols, "--depth", depth, "--runs",
                            10], **environment)
        return 2 * rows * cols * depth / statistics.median(result["seconds"])

    def overhead(self, name):
        """Seconds of one instruction of executor_overhead."""
        rows = json.loads(self.run(
            [self.tool("executor_overhead"), "--benchmark_format=json",
             f"--benchmark_filter=^{name}/real_time$"]))["benchmarks"]
        return rows[0]["per_instruction"]

    def gloo(self, size):
        seconds = 0.3 if size < 1 << 20 else 0.1
        return self.json([self.tool("gloo_allreduce"), "--bytes", size,
                          "--seconds", seconds])["seconds"]


# Each measurement: name, target, unit of the two sides, and what gives them.
# The ratio is ours / theirs, or theirs / ours where less is better.

def decode(activations):
    def sides(b):
        bundle = b.compile(f"decode-{activations}", b.model(), "--activations",
                           activations, "--seq", 256, "--chunk", 32)
        ours = lambda: 1 / b.generate(bundle, 1, 65, "step_seconds")
        return ours, lambda: b.llama(0, 64)
    return sides


def decode_bandwidth(activations):
    def sides(b):
        bundle = b.compile(f"decode-{activations}", b.model(), "--activations",
                           activations, "--seq", 256, "--chunk", 32)
        # All parameters are read once for a token; of the embedding table,
        # which is the head's weight, too, one row more.
        size = os.path.getsize(b.model())
        ours = lambda: size / b.generate(bundle, 1, 65, "step_seconds")
        return ours, lambda: b.bandwidth(size)
    return sides


def prefill(b):
    bundle = b.compile("prefill", b.model(), "--activations", "q8", "--seq",
                       1024, "--chunk", 512)
    return (lambda: 512 / b.generate(bundle, 512, 2, "prompt_seconds"),
            lambda: b.llama(512, 0))


def rows(name, reads, writes):
    def sides(b):
        count, width = b.options.rows, 2048
        bundle = b.compile_text("rows", "rows.mlir", ROWS=count, COLS=width)
        size = (reads + writes) * count * width * 4
        return (lambda: size / b.program(bundle, name),
                lambda: b.bandwidth(size, reads, writes))
    return sides


def gemm(kind, **environment):
    def sides(b):
        m, n, k = 512, 8192, 2048
        bundle = b.compile_text(f"gemm-{kind}", "gemm.mlir", ROWS=m, COLS=n,
                                DEPTH=k, TYPE=kind)
        return (lambda: 2 * m * n * k / b.program(bundle, "gemm"),
                lambda: b.onednn(kind, m, n, k, **environment))
    return sides


def attention(b):
    t, h, e = 2048, 8, 64
    bundle = b.compile_text("attention", "attention.mlir", TOKENS=t, HEADS=h,
                            GROUPS=h, WIDTH=e, SCALE="1.25e-1")
    flops = 4 * h * e * t * (t + 1) // 2
    return (lambda: flops / b.program(bundle, "attention"),
            lambda: b.onednn("f32", 512, 2048, 2048))


def ranks(b):
    one, three = (b.compile(f"tp{n}", b.model(), "--activations", "q8",
                            "--mesh", f"tp={n}", "--seq", 1024, "--chunk", 512)
                  for n in (1, 3))
    time = lambda bundle: (b.generate(bundle, 512, 2, "prompt_seconds") +
                           64 * b.generate(bundle, 1, 65, "step_seconds"))
    return lambda: time(three), lambda: time(one)


def executor(name):
    return lambda b: (lambda: b.overhead(name), lambda: 200e-9)


def all_reduce(elements):
    return lambda b: (
        lambda: b.overhead(
            f"BM_AllReduce/workers:2/ranks:2/elements:{elements}"),
        lambda: b.gloo(4 * elements))


def memory(b):
    bundle = b.compile("tp3-short", b.model(), "--activations", "q8", "--mesh",
                       "tp=3", "--seq", 256)
    result = b.json([b.tool("bundle_speed"), bundle, "--weights", b.model(),
                     "--poison", "--runs", 1, "generate", "--prompt", 100,
                     "--new", 8])
    return (lambda: result["resident_anonymous"], lambda: result["planned"])


FASTER, SMALLER = "ours / theirs", "theirs / ours"
MEASUREMENTS = [
    # name, sides, ratio, least ratio wanted, unit, the other side
    ("decode, int8 activations", decode("q8"), FASTER, 1.0, "tokens/s",
     "llama.cpp"),
    ("decode, int8 activations: bytes of the file", decode_bandwidth("q8"),
     FASTER, 0.8, "B/s", "reading a buffer of that size"),
    ("decode, fp32 activations", decode("keep"), FASTER, None, "tokens/s",
     "llama.cpp"),
    ("decode, fp32 activations: bytes of the file", decode_bandwidth("keep"),
     FASTER, 0.6, "B/s", "reading a buffer of that size"),
    ("prefill of 512 tokens", prefill, FASTER, 2.0, "tokens/s", "llama.cpp"),
    ("residual and norm", rows("residual_norm", 2, 2), FASTER, 0.8, "B/s",
     "reading 2 and writing 2 buffers"),
    ("gated unit", rows("gate", 2, 1), FASTER, 0.8, "B/s",
     "reading 2 buffers and writing 1"),
    ("product, bf16 weights", gemm("bf16"), FASTER, 1.6, "FLOP/s",
     "oneDNN, bf16"),
    ("product, bf16 weights", gemm("bf16",
                                   ONEDNN_MAX_CPU_ISA="AVX512_CORE_BF16"),
     FASTER, 1.6, "FLOP/s", "oneDNN, bf16, without AMX"),
    ("product, fp32 weights", gemm("f32"), FASTER, None, "FLOP/s",
     "oneDNN, fp32, packed weights"),
    ("causal attention, 2048 tokens", attention, FASTER, 0.7, "FLOP/s",
     "oneDNN, an fp32 product"),
    ("3 ranks on 2 workers, 512 + 64 tokens", ranks, SMALLER, 1 / 1.1, "s",
     "1 rank on 2 workers"),
    ("executor: scalar", executor("BM_Scalars"), SMALLER, 1.0, "s", "200 ns"),
    ("executor: launch of one tile", executor("BM_LaunchOneTile/2"), SMALLER,
     1.0, "s", "200 ns"),
    ("executor: launch of two tiles, two workers",
     executor("BM_LaunchTiles/2/2"), SMALLER, 1.0, "s", "200 ns"),
    ("executor: launch of eight tiles, two workers",
     executor("BM_LaunchTiles/2/8"), SMALLER, 1.0, "s", "200 ns"),
    ("all-reduce of 4 KiB, 2 ranks in process", all_reduce(1 << 10), SMALLER,
     20.0, "s", "gloo, 2 processes, loopback"),
    ("all-reduce of 16 MiB, 2 ranks in process", all_reduce(1 << 22), SMALLER,
     5.0, "s", "gloo, 2 processes, loopback"),
    ("memory of 3 ranks", memory, SMALLER, 0.99, "B",
     "planned arenas"),
]


def measure(bench, entry):
    name, sides, ratio, target, unit, other = entry
    result = {"name": name, "other": other, "unit": unit, "target": target}
    try:
        ours, theirs = sides(bench)
        pairs = []
        for turn in range(bench.options.turns):
            # Whoever comes first is warm last.
            pair = ((ours(), theirs()) if turn % 2 == 0 else
                    tuple(reversed((theirs(), ours()))))
            pairs.append(pair)
        result["ours"] = statistics.median(a for a, _ in pairs)
        result["theirs"] = statistics.median(b for _, b in pairs)
        ratios = [a / b if ratio == FASTER else b / a for a, b in pairs]
        result["ratio"] = statistics.median(ratios)
        result["spread"] = [min(ratios), max(ratios)]
    except Missing as missing:
        result["missing"] = str(missing)
    result["load"] = os.getloadavg()[0]
    return result


def machine(bench):
    info = {"threads": bench.threads, "python": platform.python_version()}
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
        for key, name in (("model name", "cpu"), ("flags", "flags")):
            found = re.search(rf"^{key}\s*:\s*(.*)$", text, re.M)
            if found:
                info[name] = found.group(1)
        flags = info.get("flags", "").split()
        info["flags"] = " ".join(
            flag for flag in flags
            if re.match(r"avx2|avx512f$|avx512_(vnni|bf16)|avx_vnni|amx_", flag))
        total = re.search(r"MemTotal:\s*(\d+) kB",
                          pathlib.Path("/proc/meminfo").read_text())
        info["memory_bytes"] = int(total.group(1)) * 1024 if total else None
    except OSError:
        pass
    info["processors"] = os.cpu_count()
    return info


def scaled(value, unit):
    if unit in ("s",):
        for factor, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")):
            if value >= factor:
                return f"{value / factor:.3g} {name}"
    if unit in ("B/s", "FLOP/s"):
        return f"{value / 1e9:.4g} G{unit}"
    if unit == "B":
        return f"{value / 2**20:.1f} MiB"
    return f"{value:.4g} {unit}"


def table(results):
    lines = ["| what | Heddle | the other side | | ratio | target |",
             "|---|---|---|---|---|---|"]
    for r in results["measurements"]:
        target = "" if r["target"] is None else f"{r['target']:.2g}"
        if "missing" in r:
            lines.append(f"| {r['name']} | | | {r['other']} | not measured: "
                         f"{r['missing']} | {target} |")
            continue
        reached = ("" if r["target"] is None else
                   ", reached" if r["ratio"] >= r["target"] else ", missed")
        lines.append(
            f"| {r['name']} | {scaled(r['ours'], r['unit'])} | "
            f"{scaled(r['theirs'], r['unit'])} | {r['other']} | "
            f"{r['ratio']:.3g} ({r['spread'][0]:.3g}-{r['spread'][1]:.3g}) | "
            f"{target}{reached} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/bin",
                        help="folder of Heddle's programs")
    parser.add_argument("--model", default=os.environ.get(
        "HEDDLE_SMOLLM2", f"build/models/{MODEL}"), help=MODEL)
    parser.add_argument("--llama-bench", help="llama.cpp's llama-bench")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5,
                        help="how often the two sides take turns")
    parser.add_argument("--rows", type=int, default=32768,
                        help="rows of 8 KiB of the row programs' tensors: "
                        "larger than the caches")
    parser.add_argument("--only", default="", metavar="TEXT",
                        help="measurements whose name contains this")
    parser.add_argument("-o", "--output", help="results as JSON")
    parser.add_argument("--table", metavar="FILE",
                        help="print results of an earlier run as a table")
    options = parser.parse_args()
    if options.table:
        print(table(json.loads(pathlib.Path(options.table).read_text())))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, folder)
        results = {"machine": machine(bench), "measurements": []}
        wanted = [m for m in MEASUREMENTS if options.only in m[0]]
        for i, entry in enumerate(wanted):
            print(f"[{i + 1}/{len(wanted)}] {entry[0]}", file=sys.stderr)
            results["measurements"].append(measure(bench, entry))
            if options.output:  # each time: a run takes minutes
                pathlib.Path(options.output).write_text(
                    json.dumps(results, indent=1))
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
