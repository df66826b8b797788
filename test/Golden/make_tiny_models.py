"""Makes the tiny models and golden logits under test/Golden.

Run once, by hand, with packages that no test needs:

    python3 -m venv VENV && VENV/bin/pip install torch transformers safetensors
    VENV/bin/python test/Golden/make_tiny_models.py test/Golden

Each folder tiny-NAME holds config.json and model.safetensors (float32, random,
none of the norm weights or biases trivial), tokens.json (a batch of token ids)
and logits.json: the logits that Hugging Face transformers computes for them,
rounded to float32, as nested lists [batch][token][vocabulary]. The model runs
in float64; transformers itself still does norms, rotary angles and softmax in
float32.
"""

import json
import os
import sys

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

COMMON = dict(
    vocab_size=41,
    hidden_size=24,
    intermediate_size=22,
    num_hidden_layers=2,
    max_position_embeddings=64,
    rms_norm_eps=1e-5,
    hidden_act="silu",
    tie_word_embeddings=False,
    bos_token_id=1,
    eos_token_id=2,
    dtype="float32",
)

# (folder, config class, keys, token count)
MODELS = {
    # Llama 3 scaling: of the three wavelengths 6.3, 50 and 396 the first is
    # kept, the second blended and the third divided.
    "tiny-llama": (
        transformers.LlamaConfig,
        dict(
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=512,
            rope_parameters=dict(
                rope_theta=500.0,
                rope_type="llama3",
                factor=8.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=128,
            ),
        ),
        11,
    ),
    # Biases on q, k and v; tied embeddings; a window that is switched off.
    "tiny-qwen2": (
        transformers.Qwen2Config,
        dict(
            hidden_size=20,
            num_attention_heads=2,
            num_key_value_heads=1,
            tie_word_embeddings=True,
            rope_theta=1e6,
            rms_norm_eps=1e-6,
            use_sliding_window=False,
            sliding_window=5,
            max_window_layers=1,
        ),
        9,
    ),
    # Norms on q and k; heads * head_dim = 30 is not the hidden size.
    "tiny-qwen3": (
        transformers.Qwen3Config,
        dict(
            hidden_size=20,
            head_dim=10,
            num_attention_heads=3,
            num_key_value_heads=1,
            rope_theta=1e6,
            rms_norm_eps=1e-6,
        ),
        10,
    ),
    # A window much shorter than the text, on every layer.
    "tiny-mistral": (
        transformers.MistralConfig,
        dict(
            num_attention_heads=3,
            num_key_value_heads=1,
            sliding_window=5,
            rope_theta=10000.0,
        ),
        16,
    ),
}


def randomise(model, generator):
    """Every parameter different, none zero, one or symmetric."""
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            noise = torch.randn(
                parameter.shape, generator=generator, dtype=torch.float64
            )
            if "norm" in name:
                noise = 1 + 0.3 * noise
            elif name.endswith(".bias"):
                noise = 0.3 * noise
            elif "embed_tokens" in name or "lm_head" in name:
                noise = noise / parameter.shape[-1] ** 0.5
            else:
                noise = 1.5 * noise / parameter.shape[-1] ** 0.5
            # Stored as float32: the float64 run starts from these very values.
            parameter.copy_(noise.to(torch.float32).to(parameter.dtype))


def numbers(array):
    """Nested lists of the shortest decimals that read back as these floats."""
    if array.ndim == 0:
        return float(str(array))
    return [numbers(row) for row in array]


def main(folder):
    torch.set_num_threads(1)
    for index, (name, (config_class, keys, length)) in enumerate(MODELS.items()):
        generator = torch.Generator().manual_seed(1000 + index)
        config = config_class(**{**COMMON, **keys})
        config._attn_implementation = "eager"
        model = transformers.AutoModelForCausalLM.from_config(
            config, attn_implementation="eager"
        )
        model = model.to(torch.float64).eval()
        randomise(model, generator)
        tokens = torch.randint(
            0, config.vocab_size, (2, length), generator=generator
        )
        with torch.no_grad():
            logits = model(tokens).logits
        target = os.path.join(folder, name)
        os.makedirs(target, exist_ok=True)
        tensors = {
            key: value.to(torch.float32).contiguous()
            for key, value in model.state_dict().items()
            if not (config.tie_word_embeddings and key == "lm_head.weight")
        }
        save_file(
            tensors,
            os.path.join(target, "model.safetensors"),
            metadata={"format": "pt"},
        )
        description = json.loads(config.to_json_string(use_diff=False))
        description = {
            key: value
            for key, value in description.items()
            if key in KEPT or key in keys
        }
        description["architectures"] = [type(model).__name__]
        description["dtype"] = "float32"
        with open(os.path.join(target, "config.json"), "w") as file:
            json.dump(description, file, indent=2, sort_keys=True)
            file.write("\n")
        with open(os.path.join(target, "tokens.json"), "w") as file:
            json.dump(tokens.tolist(), file)
            file.write("\n")
        with open(os.path.join(target, "logits.json"), "w") as file:
            json.dump(
                numbers(logits.numpy().astype(np.float32)),
                file,
                separators=(",", ":"),
            )
            file.write("\n")
        total = sum(
            os.path.getsize(os.path.join(target, f)) for f in os.listdir(target)
        )
        print(
            f"{name}: {sum(t.numel() for t in tensors.values())} parameters, "
            f"{total} bytes, transformers {transformers.__version__}, "
            f"logits up to {logits.abs().max().item():.3f}"
        )


KEPT = {
    "attention_bias",
    "head_dim",
    "hidden_act",
    "hidden_size",
    "intermediate_size",
    "layer_types",
    "max_position_embeddings",
    "max_window_layers",
    "mlp_bias",
    "model_type",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "sliding_window",
    "tie_word_embeddings",
    "use_sliding_window",
    "vocab_size",
}

if __name__ == "__main__":
    main(sys.argv[1])
