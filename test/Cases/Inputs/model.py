# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes tiny models, with nothing but the standard library.

  model.py config FILE [KEY=VALUE ...]        config.json
  model.py hf FOLDER [KEY=VALUE ...]          config.json, model.safetensors
  model.py gguf FILE [KEY=VALUE ...]          the weights of `hf`, as GGUF

A value is JSON, or a string; an empty one removes the key. Weights are drawn
from a seed for each tensor name, so that two models share what they both have.
Options that are no keys of a config.json:

  tensor.NAME=TEXT    in files: zero (all zeros), drop (left out), other
                      (another seed), or F8_E4M3 and the like (a foreign type)
  gguf.type=q8_0      matrices in blocks of 32 (or q4_0), in files of both kinds
                      as the values that the blocks hold
  gguf.KEY=VALUE      a further string of the metadata
"""

import json
import os
import random
import struct
import sys

DEFAULTS = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 96,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
    "torch_dtype": "float32",
}


def parse(arguments):
    config, extra = dict(DEFAULTS), {}
    for argument in arguments:
        key, _, text = argument.partition("=")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        if key.startswith(("tensor.", "gguf.")):
            extra[key] = text
        elif text == "":
            config.pop(key, None)
        else:
            config[key] = value
    if config["model_type"] != "llama":
        config.pop("architectures", None)
    return config, extra


def shapes(config):
    """Hugging Face name -> shape, in order."""
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    kv, ffn = config["num_key_value_heads"], config["intermediate_size"]
    dim = config.get("head_dim", hidden // heads)
    bias = config["model_type"] == "qwen2" or config.get("attention_bias")
    result = {"model.embed_tokens.weight": [config["vocab_size"], hidden]}
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        result[layer + "input_layernorm.weight"] = [hidden]
        for name, rows in (("q", heads), ("k", kv), ("v", kv)):
            result[f"{layer}self_attn.{name}_proj.weight"] = [rows * dim,
                                                              hidden]
            if bias:
                result[f"{layer}self_attn.{name}_proj.bias"] = [rows * dim]
        result[layer + "self_attn.o_proj.weight"] = [hidden, heads * dim]
        result[layer + "post_attention_layernorm.weight"] = [hidden]
        result[layer + "mlp.gate_proj.weight"] = [ffn, hidden]
        result[layer + "mlp.up_proj.weight"] = [ffn, hidden]
        result[layer + "mlp.down_proj.weight"] = [hidden, ffn]
    result["model.norm.weight"] = [hidden]
    result["lm_head.weight"] = [config["vocab_size"], hidden]
    if config["tie_word_embeddings"]:
        del result["lm_head.weight"]
    return result


def f32(values):
    return struct.pack(f"<{len(values)}f", *values)


def half(value):
    return struct.unpack("<e", struct.pack("<e", value))[0]


def draw(name, shape, what):
    count = 1
    for extent in shape:
        count *= extent
    if what == "zero":
        return [0.0] * count
    source = random.Random(name + (" again" if what == "other" else ""))
    offset = 1 if "norm" in name else 0
    # Multiples of 2^-12: exact in fp32, and as sums of a few.
    return [round((offset + source.gauss(0, 0.3)) * 4096) / 4096
            for _ in range(count)]


def q8_0(block):
    scale = half(max(map(abs, block)) / 127)
    codes = [max(-127, min(127, round(v / scale))) if scale else 0
             for v in block]
    return struct.pack("<e32b", scale, *codes), [scale * c for c in codes]


def q4_0(block):
    scale = half(max(block, key=abs) / -8)
    codes = [max(0, min(15, round(v / scale) + 8)) if scale else 8
             for v in block]
    pairs = [low | high << 4 for low, high in zip(codes[:16], codes[16:])]
    return (struct.pack("<e16B", scale, *pairs),
            [scale * (c - 8) for c in codes])


# The number that GGUF has for a type, and how a block is made.
BLOCKS = {"q4_0": (2, q4_0), "q8_0": (8, q8_0)}


def quantise(values, kind):
    """The bytes, and the numbers that they stand for."""
    parts = [BLOCKS[kind][1](values[at:at + 32])
             for at in range(0, len(values), 32)]
    return (b"".join(data for data, _ in parts),
            [number for _, back in parts for number in back])


def tensors(config, extra):
    """Name -> (shape, values), without what is to be dropped."""
    result = {}
    for name, shape in shapes(config).items():
        what = extra.get("tensor." + name, "")
        if what != "drop":
            result[name] = (shape, draw(name, shape, what))
    for key, what in extra.items():
        name = key.removeprefix("tensor.")
        if key.startswith("tensor.") and name not in shapes(config):
            shape = ([config["vocab_size"], config["hidden_size"]]
                     if name == "lm_head.weight" else [4])
            result[name] = (shape, draw(name, shape, what))
    kind = extra.get("gguf.type")
    if kind:
        for name, (shape, values) in result.items():
            if len(shape) == 2:
                result[name] = (shape, quantise(values, kind)[1])
    return result


def write_hf(folder, config, extra):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=1)
    header, data = {}, b""
    for name, (shape, values) in tensors(config, extra).items():
        what = extra.get("tensor." + name, "")
        foreign = what.isupper() or what.startswith("F8")
        raw = bytes(len(values)) if foreign else f32(values)
        header[name] = {"dtype": what if foreign else "F32", "shape": shape,
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def gguf_name(name):
    for old, new in (("model.layers.", "blk."), ("self_attn.", ""),
                     ("mlp.", ""), ("input_layernorm", "attn_norm"),
                     ("post_attention_layernorm", "ffn_norm"),
                     ("q_proj", "attn_q"), ("k_proj", "attn_k"),
                     ("v_proj", "attn_v"), ("o_proj", "attn_output"),
                     ("gate_proj", "ffn_gate"), ("up_proj", "ffn_up"),
                     ("down_proj", "ffn_down"),
                     ("model.embed_tokens", "token_embd"),
                     ("model.norm", "output_norm"), ("lm_head", "output")):
        name = name.replace(old, new)
    return name


def permute(values, heads, rows):
    """Rows as llama.cpp's converter stores them: per head, row i of the first
    half next to row i of the second."""
    width = len(values) // rows
    lines = [values[r * width:(r + 1) * width] for r in range(rows)]
    dim, result = rows // heads, []
    for head in range(heads):
        for i in range(dim // 2):
            result += lines[head * dim + i]
            result += lines[head * dim + dim // 2 + i]
    return result


def write_gguf(path, config, extra):
    def text(value):
        raw = value.encode()
        return struct.pack("<Q", len(raw)) + raw

    architecture = config["model_type"]
    entries = [text("general.architecture") + struct.pack("<I", 8)
               + text(architecture)]
    for key, value in (
            ("embedding_length", config["hidden_size"]),
            ("feed_forward_length", config["intermediate_size"]),
            ("block_count", config["num_hidden_layers"]),
            ("attention.head_count", config["num_attention_heads"]),
            ("attention.head_count_kv", config["num_key_value_heads"]),
            ("attention.key_length", config.get("head_dim", 0))):
        if value == 0:
            continue
        entries.append(text(f"{architecture}.{key}")
                       + struct.pack("<II", 4, value))
    entries.append(text(f"{architecture}.attention.layer_norm_rms_epsilon")
                   + struct.pack("<If", 6, config["rms_norm_eps"]))
    for key, value in extra.items():
        if key.startswith("gguf.") and key != "gguf.type":
            entries.append(text(key.removeprefix("gguf."))
                           + struct.pack("<I", 8) + text(value))
    described, data = [], b""
    for name, (shape, values) in tensors(config, extra).items():
        heads = {"q_proj": "num_attention_heads",
                 "k_proj": "num_key_value_heads"}.get(name.split(".")[-2])
        if heads and architecture == "llama":
            values = permute(values, config[heads], shape[0])
        kind = extra.get("gguf.type") if len(shape) == 2 else None
        raw = quantise(values, kind)[0] if kind else f32(values)
        data += bytes(-len(data) % 32)
        described.append(text(gguf_name(name)) + struct.pack("<I", len(shape))
                         + b"".join(struct.pack("<Q", extent)
                                    for extent in reversed(shape))
                         + struct.pack("<IQ", BLOCKS[kind][0] if kind else 0,
                                       len(data)))
        data += raw
    head = (b"GGUF" + struct.pack("<IQQ", 3, len(described), len(entries))
            + b"".join(entries) + b"".join(described))
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % 32) + data)


def main():
    kind, path = sys.argv[1:3]
    config, extra = parse(sys.argv[3:])
    if kind == "config":
        with open(path, "w") as file:
            json.dump(config, file, indent=1)
    elif kind == "hf":
        write_hf(path, config, extra)
    else:
        write_gguf(path, config, extra)


if __name__ == "__main__":
    main()
