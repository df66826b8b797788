#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Greedy tokens of SmolLM2-135M-Instruct by llama.cpp, with their margins.

    pip install llama-cpp-python numpy
    llama-quantize --allow-requantize SmolLM2-135M-Instruct.Q4_1.gguf f32.gguf F32
    test/Golden/make_smollm2_golden.py f32.gguf > test/Golden/smollm2-135m-instruct.json

The weights are those of the Q4_1 file, dequantised to F32, so that no
activation is rounded; the key/value cache is F32, flash attention off. A margin
is the difference of the two largest logits: below 0.01 another implementation
may choose the other token.
"""

import json
import sys

import llama_cpp
import numpy

# Ids of chats through the model's template, user turns:
# "What is the capital of France?", and one of more than a hundred tokens that
# repeats phrases of the first.
SYSTEM = [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308,
          34519, 28, 7018, 411, 407, 19712, 8182, 2, 198]
QUESTION = [1780, 314, 260, 3575, 282, 4649, 47]
ANSWER = [504, 3575, 282, 4649, 314, 7042, 30]
USER, ASSISTANT, END = [1, 4093, 198], [1, 520, 9531, 198], [2, 198]
PROMPTS = [
    SYSTEM + USER + QUESTION + END + ASSISTANT,
    SYSTEM + 3 * (USER + QUESTION + END + ASSISTANT + ANSWER + END) + USER +
    QUESTION + END + ASSISTANT,
    QUESTION,
]
TOKENS = 64


def generate(model, prompt):
    """Ids and margins of TOKENS greedy tokens; the end of text is ignored."""
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx = parameters.n_batch = 512
    parameters.n_threads = parameters.n_threads_batch = 1
    parameters.type_k = parameters.type_v = 0  # GGML_TYPE_F32
    parameters.flash_attn_type = 0  # off
    context = llama_cpp.llama_init_from_model(model, parameters)
    vocabulary = llama_cpp.llama_vocab_n_tokens(
        llama_cpp.llama_model_get_vocab(model))
    ids, margins, tokens = [], [], list(prompt)
    for _ in range(TOKENS):
        array = (llama_cpp.llama_token * len(tokens))(*tokens)
        batch = llama_cpp.llama_batch_get_one(array, len(tokens))
        if llama_cpp.llama_decode(context, batch) != 0:
            sys.exit("llama_decode failed")
        logits = numpy.ctypeslib.as_array(
            llama_cpp.llama_get_logits_ith(context, -1), shape=(vocabulary,))
        second, first = numpy.argsort(logits)[-2:]
        ids.append(int(first))
        margins.append(round(float(logits[first] - logits[second]), 5))
        tokens = [int(first)]
    llama_cpp.llama_free(context)
    return ids, margins


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(
        sys.argv[1].encode(), llama_cpp.llama_model_default_params())
    runs = []
    for prompt in PROMPTS:
        ids, margins = generate(model, prompt)
        runs.append({"prompt": prompt, "ids": ids, "margins": margins})
    print(json.dumps({"model": "SmolLM2-135M-Instruct Q4_1, dequantised to F32",
                      "by": "llama.cpp of llama-cpp-python " +
                            llama_cpp.__version__,
                      "runs": runs}))


if __name__ == "__main__":
    main()
