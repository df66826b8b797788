#!/usr/bin/env python3
"""Writes the fuzzers' seed inputs below corpus/, next to this script.

The seeds are small valid files that reach every branch of the readers, and the
classical crafted ones. Running this again changes nothing.
"""

import json
import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent


def write(target, seeds):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, data in seeds.items():
        (folder / name).write_bytes(data)


# --- safetensors ---


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors_seeds():
    widths = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4,
              "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
    every, at = {"__metadata__": {"format": "pt"}}, 0
    for name, width in widths.items():
        every[name] = tensor(name, [2, 1], at, at + 2 * width)
        at += 2 * width
    nested = b'{"a":' + b"[" * 40
    return {
        "every_type": safetensors(every, bytes(at)),
        "none": safetensors({}),
        "padded": safetensors(b"{}      "),
        "scalar": safetensors({"a": tensor("F32", [], 0, 4)}, bytes(4)),
        "empty": safetensors({"a": tensor("F32", [0, 4], 0, 0)}),
        "unordered": safetensors({"b": tensor("U8", [1], 1, 2),
                                  "a": tensor("U8", [1], 0, 1)}, b"ab"),
        "escaped": safetensors({"\u00e9\n": tensor("U8", [1], 0, 1)}, b"a"),
        "unknown_member": safetensors(
            {"a": dict(tensor("U8", [1], 0, 1), x=[{"y": [1.5, None]}])},
            b"a"),
        "length_max": b"\xff" * 8,
        "length_zero": bytes(8),
        "array": safetensors(b"[]"),
        "nested": safetensors(nested),
        "overflow": safetensors({"a": tensor("F32", [2**62, 8], 0, 4)},
                                bytes(4)),
        "too_big": safetensors({"a": tensor("F32", [2**63, 2], 0, 4)},
                               bytes(4)),
        "short": safetensors({"a": tensor("F32", [1000, 1000], 0, 4)},
                             bytes(4)),
        "backwards": safetensors({"a": tensor("U8", [4], 8, 4)}, bytes(8)),
        "one_offset": safetensors({"a": dict(tensor("U8", [1], 0, 1),
                                             data_offsets=[0])}, b"a"),
        "unknown_type": safetensors({"a": tensor("F8_E4M3", [1], 0, 1)}, b"a"),
        "overlap": safetensors({"a": tensor("U8", [2], 0, 2),
                                "b": tensor("U8", [2], 1, 3)}, b"abc"),
        "twice": safetensors(
            b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
            b'"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', b"ab"),
    }


# --- GGUF ---

# Number, block elements, block bytes.
GGUF_TYPES = [(0, 1, 4), (1, 1, 2), (2, 32, 18), (3, 32, 20), (6, 32, 22),
              (7, 32, 24), (8, 32, 34), (10, 256, 84), (11, 256, 110),
              (12, 256, 144), (13, 256, 176), (14, 256, 210), (24, 1, 1),
              (25, 1, 2), (26, 1, 4), (27, 1, 8), (28, 1, 8), (30, 1, 2)]
# Value type to a struct format.
GGUF_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f",
                7: "?", 10: "Q", 11: "q", 12: "d"}


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def entry(key, kind, payload):
    return text(key) + struct.pack("<I", kind) + payload


def array(kind, count, payload):
    return struct.pack("<IQ", kind, count) + payload


def describe(name, dims, kind, offset):
    return (text(name) + struct.pack("<I", len(dims))
            + b"".join(struct.pack("<Q", dim) for dim in dims)
            + struct.pack("<IQ", kind, offset))


def gguf(entries=(), tensors=(), data=b"", version=3, align=32,
         magic=b"GGUF"):
    head = (magic + struct.pack("<IQQ", version, len(tensors), len(entries))
            + b"".join(entries) + b"".join(tensors))
    return head + bytes(-len(head) % align if tensors else 0) + data


def gguf_seeds():
    values = [entry("s%d" % kind, kind, struct.pack("<" + form, 1))
              for kind, form in GGUF_SCALARS.items()]
    values += [entry("a%d" % kind, 9,
                     array(kind, 2, struct.pack("<2" + form, 1, 0)))
               for kind, form in GGUF_SCALARS.items()]
    values += [entry("general.architecture", 8, text("llama")),
               entry("tokens", 9, array(8, 2, text("a") + text("")))]
    tensors, data = [], b""
    for kind, elements, size in GGUF_TYPES:
        data += bytes(-len(data) % 32)
        tensors.append(describe("t%d" % kind, [elements, 2], kind, len(data)))
        data += bytes(range(size)) * 2
    one = [describe("w", [4], 0, 0)]
    seeds = {
        "every_value": gguf(values),
        "every_type": gguf(tensors=tensors, data=data),
        "version2": gguf(values[:2], one, bytes(16), version=2),
        "scalar": gguf(tensors=[describe("w", [], 0, 0)], data=bytes(4)),
        "align64": gguf([entry("general.alignment", 4, struct.pack("<I", 64))],
                        one, bytes(16), align=64),
        "version1": gguf(version=1),
        "big_endian": gguf(version=0x03000000),
        "old_ggml": gguf(magic=b"tjgg"),
        "zero_dim": gguf(tensors=[describe("w", [1, 0], 0, 0)]),
        "empty_key": gguf([entry("", 4, bytes(4))]),
        "many_dims": gguf(tensors=[text("w") + b"\xff" * 4 + bytes(40)]),
        "dim_wraps": gguf(tensors=[describe("w", [2**62 + 1, 4], 0, 0)],
                          data=bytes(32)),
        "key_length": gguf([struct.pack("<Q", 2**63) + bytes(20)]),
        "array_count": gguf([entry("k", 9, array(4, 2**61, bytes(8)))]),
        "nested_array": gguf([entry("k", 9, array(9, 1, array(4, 0, b"")))]),
        "bool7": gguf([entry("k", 7, b"\7")]),
        "offset_huge": gguf(tensors=[describe("w", [4], 0, 2**64 - 32)]),
        "unaligned": gguf(tensors=[describe("w", [4], 0, 4)], data=bytes(64)),
        "overlap": gguf(tensors=[describe("v", [16], 0, 0),
                                 describe("w", [1], 0, 32)], data=bytes(64)),
        "mxfp4": gguf(tensors=[describe("w", [32], 39, 0)], data=bytes(32)),
        "split": gguf([entry("split.no", 2, bytes(2)),
                       entry("split.count", 2, struct.pack("<H", 3))]),
    }
    for alignment in (0, 3, 2**31):
        seeds["align%d" % alignment] = gguf(
            [entry("general.alignment", 4, struct.pack("<I", alignment))])
    return seeds


# --- the index of a sharded model ---


def index_seeds():
    def index(weights, **more):
        return json.dumps(dict(more, weight_map=weights)).encode()

    return {
        "two": index({"a": "m-1.safetensors", "b": "m-2.safetensors"},
                     metadata={"total_size": 12.5}),
        "none": index({}),
        "subfolder": index({"a": "s/m.safetensors"}),
        "parent": index({"a": "../m.safetensors"}),
        "parent_inside": index({"a": "s/../../m"}),
        "absolute": index({"a": "/m"}),
        "nul": index({"a": "m\0n"}),
        "number": index({"a": 3}),
        "nested": index({"a": {"b": ["c"]}}),
        "twice": b'{"weight_map":{"a":"x","a":"y"},"weight_map":[]}',
        "no_map": b"{}",
        "array": b"[null,true,-1,1e5]",
        "deep": b'{"x":' + b"[" * 40,
        "empty": b"",
    }


# --- descriptions ---


def config_seeds():
    tiny = {"architectures": ["LlamaForCausalLM"], "model_type": "llama",
            "hidden_size": 32, "intermediate_size": 64,
            "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "vocab_size": 96, "rms_norm_eps": 1e-5,
            "torch_dtype": "bfloat16"}

    def config(model_type="llama", **keys):
        merged = dict(tiny, model_type=model_type, **keys)
        if model_type != "llama":
            del merged["architectures"]
        return json.dumps(merged).encode()

    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1,
              "high_freq_factor": 4, "original_max_position_embeddings": 8192}
    window = dict(sliding_window=8, use_sliding_window=True)
    return {
        "llama": config(),
        "aliases": json.dumps({"model_type": "llama", "n_embd": 32,
                               "n_inner": 64, "n_layer": 2, "n_head": 4,
                               "n_head_kv": 2, "n_positions": 64,
                               "vocab_size": 9}).encode(),
        "llama3": config(rope_scaling=llama3),
        "parameters": config(rope_parameters=dict(llama3, rope_theta=5.0)),
        "thetas": config(rope_theta=5, rope_scaling={"rope_theta": 7},
                         rope_parameters={"rope_type": "default"}),
        "linear": config(rope_scaling={"type": "linear", "factor": 2}),
        "yarn": config(rope_scaling={"type": "yarn", "factor": 2}),
        "biases": config(attention_bias=True, mlp_bias=True,
                         hidden_act="gelu_new", tie_word_embeddings=True),
        "qwen2": config("qwen2", max_window_layers=1, **window),
        "qwen3": config("qwen3", head_dim=16),
        "layer_types": config("qwen2", layer_types=[
            "sliding_attention", "full_attention"], **window),
        "mistral": config("mistral", sliding_window=4),
        "experts": config(num_local_experts=8, partial_rotary_factor=0.5),
        "largest": config(hidden_size=2**20, intermediate_size=2**20,
                          num_hidden_layers=4096, vocab_size=2**24,
                          num_attention_heads=64, num_key_value_heads=64),
        "bounds": config(hidden_size=2**64, num_hidden_layers=-1,
                         vocab_size=1.5, num_attention_heads=[4]),
        "heads": config(hidden_size=64, num_attention_heads=12),
        "foreign": config("gpt2"),
        "twice": b'{"vocab_size": 1, "vocab_size": 2}',
        "deep": b'{"a":' + b"[" * 40,
        "array": b"[1]",
        "empty": b"",
    }


# What a mutation of bytes would hardly ever write.
CONFIG_WORDS = """
model_type llama mistral qwen2 qwen3 architectures hidden_size n_embd
intermediate_size num_hidden_layers num_attention_heads num_key_value_heads
head_dim vocab_size max_position_embeddings rms_norm_eps tie_word_embeddings
rope_theta rope_scaling rope_parameters rope_type type default linear factor
low_freq_factor high_freq_factor original_max_position_embeddings
partial_rotary_factor hidden_act hidden_activation silu gelu gelu_new relu
attention_bias mlp_bias sliding_window use_sliding_window max_window_layers
layer_types full_attention sliding_attention dtype torch_dtype bfloat16
quantization_config num_experts text_config
""".split()


def config_dictionary():
    lines = [f'"\\"{word}\\""' for word in CONFIG_WORDS]
    lines += ['"' + word.replace('"', '\\"') + '"'
              for word in ("null", "true", "false", "{}", "[]", "-1", "1e9",
                           "0.5", "18446744073709551615", ":{", ",")]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    write("config", config_seeds())
    (HERE / "config.dict").write_text(config_dictionary())
    write("safetensors", safetensors_seeds())
    write("gguf", gguf_seeds())
    write("hf_index", index_seeds())
