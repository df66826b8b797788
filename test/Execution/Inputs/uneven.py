# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""uneven.py TEMP: sizes that hardly anything divides, against the reference.

Writes the models below as config.json files and calls heddle-check for each
mesh, after partition and as a bundle. Prints one line a model: what it is, and
the meshes on which both are equal. A check that fails is printed whole.
"""

import json
import subprocess
import sys

MESHES = ("tp=1", "tp=2", "tp=3", "tp=4", "tp=5", "tp=8", "dp=2,tp=3")

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 16}

# Query heads, key/value heads, head_dim, hidden_size, intermediate_size,
# vocab_size, type of weights, further keys.
MODELS = (
    (5, 5, 6, 21, 13, 53, "f32", {}),
    (5, 1, 10, 19, 23, 47, "bf16", {"hidden_act": "gelu_pytorch_tanh"}),
    (7, 1, 6, 17, 11, 31, "f32", {"attention_bias": True, "mlp_bias": True}),
    (9, 1, 10, 33, 29, 67, "bf16", {"rope_scaling": LLAMA3}),
    (9, 3, 10, 27, 37, 101, "f32", {"tie_word_embeddings": True}),
    (9, 3, 10, 27, 37, 101, "bf16", {"tie_word_embeddings": True}),
    (15, 5, 6, 25, 7, 3, "bf16", {"attention_bias": True, "mlp_bias": True,
                                  "tie_word_embeddings": True}),
)


def check(config, mesh, at, weights):
    """Whether the program is equal there; the messages if it is not."""
    command = ["heddle-check", config, "--mesh", mesh, "--at", at, "--weights",
               weights, "--seq", "20", "--chunk", "6", "--batch",
               "2" if mesh.startswith("dp=2") else "1"]
    done = subprocess.run(command, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=60)
    if done.returncode == 0 and done.stdout.startswith(f"equal at {at}: "):
        return True
    print(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}")
    return False


def main():
    failed = False
    for (heads, groups, width, hidden, inner, words, weights,
         keys) in MODELS:
        config = f"{sys.argv[1]}.{heads}.{groups}.json"
        with open(config, "w") as file:
            json.dump({"model_type": "llama", "num_hidden_layers": 2,
                       "num_attention_heads": heads,
                       "num_key_value_heads": groups, "head_dim": width,
                       "hidden_size": hidden, "intermediate_size": inner,
                       "vocab_size": words, **keys}, file)
        equal = [mesh for mesh in MESHES
                 if all([check(config, mesh, at, weights)
                         for at in ("partition", "plan")])]
        failed |= len(equal) != len(MESHES)
        print(f"{heads} heads, {groups} kv, {width} wide, {weights}: equal on",
              *equal, flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
