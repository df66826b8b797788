#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ring attention beside JAX: 4 ranks of a process, 4 devices of JAX on a host.

    ring_attention.py --bin build/bin --jax-python PATH [-o results.json]

Causal attention in fp32 over one sequence. Heddle runs a compiled ring, zigzag. JAX
runs the same blocks with shard_map: keys and values go round by ppermute, partial
results are merged by log-sum-exp (arXiv:2310.01889), one block a hop, jitted.
Each side is a process that holds its inputs; they take turns. Time is the median
of a call; memory is how far the peak of resident memory lies above what the
process had with NumPy (and JAX) loaded, inputs and results included. The results
are compared with each other.

PATH is a Python that has jax and numpy.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

RANKS = 4
ROOT = pathlib.Path(__file__).resolve().parents[2]


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def inputs(options):
    import numpy as np

    random = np.random.default_rng(7)
    shape = (1, options.tokens, options.heads, options.width)
    return [random.standard_normal(shape, dtype=np.float32) for _ in range(3)]


def serve(call, result, base):
    """One call for every line of standard input."""
    call()
    for line in sys.stdin:
        if line.strip() == "end":
            break
        start = time.perf_counter()
        call()
        print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)
    import numpy as np

    memory = peak() - base
    np.save(sys.argv[-1], result())
    print(json.dumps({"memory": memory}), flush=True)


def heddle_side(options):
    import numpy as np

    import heddle

    base = resident()
    q, k, v = inputs(options)
    rows = f"tensor<1x{options.tokens}x{options.heads}x{options.width}xf32>"
    ids = f"tensor<1x{options.tokens}xi32>"

    def bound(name, kind):
        return f"{{heddle.binding = #heddle.binding<{kind} \"{name}\">}}"

    text = f"""heddle.mesh @m ["cp" = {RANKS}]
func.func @forward(%q: {rows} {bound("q", "input")},
    %k: {rows} {bound("k", "input")}, %v: {rows} {bound("v", "input")},
    %p: {ids} {bound("positions", "input")}) -> ({rows} {bound("out", "output")}) {{
  %0 = heddle.attention %q, %k, %v pos(%p, %p) scale {options.width ** -0.5}
    causal : ({rows}, {rows}, {rows}, {ids}, {ids}) -> {rows}
  return %0 : {rows}
}}
"""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "attention.mlir"
        bundle = pathlib.Path(folder) / "attention.heddle"
        source.write_text(text)
        subprocess.run([options.bin / "heddle-compile", source,
                        "--compile-from", "import", "--strategy", "ring(cp)",
                        "-o", bundle], check=True, stdout=subprocess.DEVNULL)
        session = heddle.Session(heddle.Bundle(bundle), "random:1")
        for name, value in (("q", q), ("k", k), ("v", v)):
            session.set_input("forward", name, value)
        session.set_input("forward", "positions",
                          np.arange(options.tokens, dtype=np.int32)[None])
        serve(lambda: session.run("forward"),
              lambda: session.output("forward", "out"), base)


def jax_side(options):
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={RANKS}"
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(jax.devices("cpu")[:RANKS], ("cp",))
    spec = PartitionSpec(None, "cp", None, None)
    base = resident()
    scale = options.width ** -0.5
    forward = [(r, (r + 1) % RANKS) for r in range(RANKS)]

    def ring(q, k, v):
        rank = jax.lax.axis_index("cp")
        tokens = q.shape[1]
        here = jnp.arange(tokens)
        shape = (q.shape[0], q.shape[2], tokens)

        def hop(i, carry):
            out, total, top, k, v = carry
            source = (rank - i) % RANKS
            scores = scale * jnp.einsum("bqhe,bkhe->bhqk", q, k)
            seen = ((rank * tokens + here)[:, None]
                    >= (source * tokens + here)[None, :])
            scores = jnp.where(seen, scores, -jnp.inf)
            peak = jnp.maximum(top, scores.max(-1))
            safe = jnp.where(jnp.isneginf(peak), 0.0, peak)
            weights = jnp.exp(scores - safe[..., None])
            old = jnp.exp(top - safe)
            total = total * old + weights.sum(-1)
            out = (out * old.transpose(0, 2, 1)[..., None]
                   + jnp.einsum("bhqk,bkhe->bqhe", weights, v))
            k, v = (jax.lax.ppermute(x, "cp", forward) for x in (k, v))
            return out, total, peak, k, v

        def varying(x):
            return jax.lax.pcast(x, ("cp",), to="varying")

        start = (jnp.zeros_like(q), varying(jnp.zeros(shape)),
                 varying(jnp.full(shape, -jnp.inf)), k, v)
        out, total, *_ = jax.lax.fori_loop(0, RANKS, hop, start)
        return out / total.transpose(0, 2, 1)[..., None]

    call = jax.jit(jax.shard_map(ring, mesh=mesh, in_specs=(spec,) * 3,
                                 out_specs=spec))
    arrays = [jax.device_put(x, NamedSharding(mesh, spec))
              for x in inputs(options)]
    kept = []

    def run():
        kept[:] = [call(*arrays).block_until_ready()]

    serve(run, lambda: jax.device_get(kept[0]), base)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--jax-python", default=sys.executable)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("-o", "--output")
    parser.add_argument("--side", choices=("heddle", "jax"),
                        help=argparse.SUPPRESS)
    options, rest = parser.parse_known_args()
    if options.side:
        {"heddle": heddle_side, "jax": jax_side}[options.side](options)
        return
    if rest:
        parser.error(f"unknown arguments: {' '.join(rest)}")

    import numpy as np

    environment = dict(os.environ, HEDDLE_BUILD=str(options.bin.parent),
                       PYTHONPATH=f"{options.bin.parent / 'python'}:"
                                  f"{ROOT / 'python-bindings'}")
    with tempfile.TemporaryDirectory() as folder:
        sides = {}
        for side, python in (("heddle", sys.executable),
                             ("jax", options.jax_python)):
            result = pathlib.Path(folder) / f"{side}.npy"
            sides[side] = (result, subprocess.Popen(
                [python, __file__, *sys.argv[1:], "--side", side, str(result)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                env=environment))
        seconds = {side: [] for side in sides}
        for turn in range(options.turns + 1):
            for side, (_, process) in sides.items():
                process.stdin.write("go\n")
                process.stdin.flush()
                line = process.stdout.readline()
                if not line:
                    sys.exit(f"{side} ended with {process.wait()}")
                if turn:  # the first one warms up
                    seconds[side].append(json.loads(line)["seconds"])
        memory = {}
        for side, (_, process) in sides.items():
            process.stdin.write("end\n")
            process.stdin.flush()
            memory[side] = json.loads(process.stdout.readline())["memory"]
            process.wait()
        a, b = (np.load(path) for path, _ in sides.values())
    difference = float(np.abs(a - b).max())
    results = {
        "tokens": options.tokens, "heads": options.heads,
        "width": options.width,
        "seconds": {s: statistics.median(t) for s, t in seconds.items()},
        "memory": memory, "difference": difference,
    }
    results["time_ratio"] = (results["seconds"]["jax"]
                             / results["seconds"]["heddle"])
    results["memory_ratio"] = memory["heddle"] / memory["jax"]
    text = json.dumps(results, indent=2)
    if options.output:
        pathlib.Path(options.output).write_text(text + "\n")
    print(text)
    if not difference < 1e-4:
        sys.exit(f"expected equal results, got a difference of {difference}")


if __name__ == "__main__":
    main()
