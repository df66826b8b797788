# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Text to token ids and back, through the `tokenizers` library."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any, Optional

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models,
                        normalizers, pre_tokenizers)

from . import _gguf

# token_type values of GGUF files.
_CONTROL, _USER_DEFINED = 3, 4
# Tokens that end an answer, beside the one that the model names.
_END_TOKENS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>")
_WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def _split(pattern: str) -> list[Any]:
    return [pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]


def _byte_level() -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


# tokenizer.ggml.pre -> how text is cut before BPE.
_PRE = {
    "gpt-2": lambda: [_byte_level()],
    "smollm": lambda: [pre_tokenizers.Digits(individual_digits=True),
                       _byte_level()],
    "llama-bpe": lambda: _split(_WORDS % "{1,3}"),
    "qwen2": lambda: _split(_WORDS % ""),
}


@dataclass
class TextModel:
    """A tokenizer and how its model wants to be spoken to.

    Attributes:
        end: ids after which an answer is over.
        template: the chat template (Jinja), if the model has one.
        marks: values that templates use, such as "bos_token".
        prefix: ids before raw text, such as the one for its beginning.
    """

    tokenizer: Tokenizer
    end: set[int]
    template: Optional[str] = None
    marks: dict[str, str] = field(default_factory=dict)
    prefix: list[int] = field(default_factory=list)

    def chat_text(self, prompt: str) -> str:
        """One user turn in the model's chat format, ready for the answer.

        The model's template where it has one and jinja2 is there, else ChatML.
        Raises ValueError where neither fits.
        """
        messages = [{"role": "user", "content": prompt}]
        if self.template:
            text = _render(self.template, messages, self.marks)
            if text is not None:
                return text
        if self.tokenizer.token_to_id("<|im_start|>") is None:
            what = ("the package jinja2, for the model's chat template"
                    if self.template else "a model with a chat template")
            raise ValueError(f"expected {what}: use --raw to continue text")
        return (f"<|im_start|>user\n{prompt}<|im_end|>\n"
                "<|im_start|>assistant\n")

    def encode_chat(self, prompt: str) -> list[int]:
        """Ids of `chat_text`. Names of special tokens in it become those."""
        return self.tokenizer.encode(self.chat_text(prompt),
                                     add_special_tokens=False).ids

    def encode(self, text: str) -> list[int]:
        """Ids of raw text to continue."""
        return self.prefix + self.tokenizer.encode(
            text, add_special_tokens=False).ids

    def decode(self, ids: list[int]) -> str:
        """Text of ids, without special tokens."""
        return self.tokenizer.decode(ids, skip_special_tokens=True)


class Stream:
    """Text of ids that come one by one; a character may take several."""

    def __init__(self, text: TextModel, context: list[int]) -> None:
        """Starts after `context`, whose text is not given again."""
        self._text = text
        self._ids = list(context[-8:])
        self._begin, self._given = 0, len(self._ids)

    def add(self, token: int) -> str:
        """The text that is certain now; "" inside a character."""
        self._ids.append(token)
        text = self._newest()
        if text.endswith("\ufffd"):
            return ""
        self._begin, self._given = self._given, len(self._ids)
        return text

    def finish(self) -> str:
        """What is left, with U+FFFD for half characters."""
        text = self._newest() if self._given < len(self._ids) else ""
        self._given = len(self._ids)
        return text

    def _newest(self) -> str:
        # With some ids before them: decoders treat a text's start specially.
        before = self._text.decode(self._ids[self._begin:self._given])
        return self._text.decode(self._ids[self._begin:])[len(before):]


def _render(template: str, messages: list[dict[str, str]],
            marks: dict[str, str]) -> Optional[str]:
    """A chat template's text; None without the package jinja2."""
    try:
        import jinja2
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        return None

    def refuse(message: str) -> None:
        raise ValueError(f"chat template: {message}")

    # Templates come from model files: untrusted.
    environment = ImmutableSandboxedEnvironment(trim_blocks=True,
                                                lstrip_blocks=True)
    environment.globals["raise_exception"] = refuse
    try:
        return environment.from_string(template).render(
            messages=messages, add_generation_prompt=True, **marks)
    except (jinja2.TemplateError, TypeError, OverflowError) as error:
        raise ValueError(f"chat template: {error}") from error


def _from_gguf(path: str) -> TextModel:
    meta = _gguf.read_metadata(path)
    kind, pre = meta.get("tokenizer.ggml.model"), meta.get("tokenizer.ggml.pre")
    if kind != "gpt2":
        raise ValueError(f"{path}: expected tokenizer.ggml.model 'gpt2' "
                         f"(byte-level BPE), got {kind!r}")
    if pre not in _PRE:
        raise ValueError(f"{path}: expected tokenizer.ggml.pre to be one of "
                         f"{', '.join(_PRE)}, got {pre!r}")
    tokens: list[str] = meta.get("tokenizer.ggml.tokens", [])
    merges = [tuple(merge.split(" ", 1))
              for merge in meta.get("tokenizer.ggml.merges", [])]
    try:
        tokenizer = Tokenizer(models.BPE(
            vocab={token: i for i, token in enumerate(tokens)}, merges=merges,
            ignore_merges=pre == "llama-bpe"))
    except Exception as error:  # the library raises no narrower type
        raise ValueError(f"{path}: expected merges of its tokens: {error}"
                         ) from error
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(_PRE[pre]())
    tokenizer.decoder = decoders.ByteLevel()
    types = meta.get("tokenizer.ggml.token_type", [])
    tokenizer.add_special_tokens([
        AddedToken(token, special=True, normalized=False)
        for token, kind in zip(tokens, types) if kind == _CONTROL])
    tokenizer.add_tokens([
        AddedToken(token, special=False, normalized=False)
        for token, kind in zip(tokens, types) if kind == _USER_DEFINED])

    def named(name: str) -> Optional[int]:
        value = meta.get(f"tokenizer.ggml.{name}_token_id")
        return value if value is not None and value < len(tokens) else None

    marks = {f"{name}_token": tokens[index] for name in ("bos", "eos")
             if (index := named(name)) is not None}
    begin = named("bos")
    add_begin = meta.get("tokenizer.ggml.add_bos_token", pre == "llama-bpe")
    return TextModel(tokenizer, _ends(tokenizer, [named("eos"), named("eot")]),
                     meta.get("tokenizer.chat_template"), marks,
                     [begin] if add_begin and begin is not None else [])


def _ends(tokenizer: Tokenizer, ids: list[Optional[int]]) -> set[int]:
    found = {*ids, *map(tokenizer.token_to_id, _END_TOKENS)}
    return {index for index in found if index is not None}


def _json(folder: str, name: str) -> dict[str, Any]:
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        value = json.load(file)
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected a JSON object")
    return value


def _template(folder: str, config: dict[str, Any]) -> Optional[str]:
    path = os.path.join(folder, "chat_template.jinja")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            return file.read()
    value = config.get("chat_template")
    if isinstance(value, list):  # named templates
        value = {item["name"]: item["template"] for item in value}.get(
            "default")
    return value


def _from_folder(folder: str) -> TextModel:
    path = os.path.join(folder, "tokenizer.json")
    if not os.path.exists(path):
        raise ValueError(f"{folder}: expected a tokenizer.json")
    try:
        tokenizer = Tokenizer.from_file(path)
    except Exception as error:  # the library raises no narrower type
        raise ValueError(f"{path}: {error}") from error
    config = _json(folder, "tokenizer_config.json")
    marks = {}
    for name in ("bos_token", "eos_token"):
        value = config.get(name)
        value = value.get("content") if isinstance(value, dict) else value
        if isinstance(value, str):
            marks[name] = value
    ids = []
    for name in ("config.json", "generation_config.json"):
        value = _json(folder, name).get("eos_token_id")
        ids += value if isinstance(value, list) else [value]
    if "eos_token" in marks:
        ids.append(tokenizer.token_to_id(marks["eos_token"]))
    # tokenizer.json's post-processor tells what goes before raw text.
    alone = tokenizer.encode("a", add_special_tokens=True).ids
    begin = tokenizer.token_to_id(marks.get("bos_token", ""))
    prefix = [begin] if begin is not None and alone[:1] == [begin] else []
    return TextModel(tokenizer, _ends(tokenizer, ids),
                     _template(folder, config), marks, prefix)


def load(model: str | os.PathLike[str]) -> TextModel:
    """The tokenizer of a Hugging Face folder or a GGUF file.

    Raises ValueError for a kind of tokenizer that is not known, OSError where
    a file cannot be read.
    """
    path = os.fspath(model)
    return _from_folder(path) if os.path.isdir(path) else _from_gguf(path)
