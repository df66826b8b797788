# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokenizers, chat formats and the command line."""

import json
import re
import struct
import subprocess
import sys

import pytest

from heddle import _gguf, _text

TEXTS = (
    "What is the capital of France?",
    "  two spaces, a tab\t and\n\nlines  ",
    "it's 2024, they'll pay $1,234.56",
    "x=[1,2,3]; print(x)",
)


def byte_symbols():
    """GPT-2's printable stand-ins for the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {**{byte: chr(byte) for byte in plain},
            **{byte: chr(256 + i) for i, byte in enumerate(rest)}}


def plain_bpe(text, tokens, merges):
    """Byte-level BPE of ASCII text as GPT-2's paper code does it."""
    index = {token: i for i, token in enumerate(tokens)}
    rank = {merge: i for i, merge in enumerate(merges)}
    symbols = byte_symbols()
    pattern = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+"
                         r"| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")
    ids = []
    for part in re.findall(r"[0-9]|[^0-9]+", text):
        for word in pattern.findall(part):
            pieces = [symbols[byte] for byte in word.encode()]
            while len(pieces) > 1:
                pairs = [f"{a} {b}" for a, b in zip(pieces, pieces[1:])]
                best = min(pairs, key=lambda p: rank.get(p, len(rank)))
                if best not in rank:
                    break
                at = pairs.index(best)
                pieces[at:at + 2] = [pieces[at] + pieces[at + 1]]
            ids += [index[piece] for piece in pieces]
    return ids


def gguf_bytes(values, version=3):
    """A GGUF file without tensors."""
    def string(text):
        data = text.encode()
        return struct.pack("<Q", len(data)) + data

    def typed(value):
        if isinstance(value, bool):
            return 7, struct.pack("<?", value)
        if isinstance(value, int):
            return 4, struct.pack("<I", value)
        if isinstance(value, float):
            return 6, struct.pack("<f", value)
        if isinstance(value, str):
            return 8, string(value)
        inner = typed(value[0])[0]
        return 9, (struct.pack("<IQ", inner, len(value))
                   + b"".join(typed(item)[1] for item in value))

    data = b"GGUF" + struct.pack("<IQQ", version, 0, len(values))
    for key, value in values.items():
        kind, body = typed(value)
        data += string(key) + struct.pack("<I", kind) + body
    return data


TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<name>",
          *byte_symbols().values(), "he", "ll", "hell", "hello", "\u0120hello",
          "12"]
MERGES = ["h e", "l l", "he ll", "hell o", "\u0120 hello", "1 2"]


@pytest.fixture
def small(tmp_path):
    """A function that writes a small GGUF and gives its path."""
    def write(**changes):
        values = {"tokenizer.ggml.model": "gpt2",
                  "tokenizer.ggml.pre": "smollm",
                  "tokenizer.ggml.tokens": TOKENS,
                  "tokenizer.ggml.merges": MERGES,
                  "tokenizer.ggml.token_type":
                      [3, 3, 3, 4] + [1] * (len(TOKENS) - 4),
                  "tokenizer.ggml.eos_token_id": 2,
                  "tokenizer.ggml.bos_token_id": 1}
        values.update({f"tokenizer.{k}": v for k, v in changes.items()})
        path = tmp_path / "small.gguf"
        path.write_bytes(gguf_bytes(values))
        return path
    return write


def test_small_tokenizer(small):
    text = _text.load(small())
    def names(string):
        return [TOKENS[i] for i in text.encode(string)]
    assert names("hello hello") == ["hello", "\u0120hello"]
    assert names("12") == ["1", "2"]  # digits are split before BPE
    assert names("<|im_start|>hello<name>") == ["<|im_start|>", "hello",
                                                "<name>"]
    # Control tokens are not text; a user's tokens are.
    assert text.decode([1, *text.encode("hello"), 3, 2]) == "hello<name>"
    assert text.end == {0, 2}
    assert text.marks == {"bos_token": "<|im_start|>",
                          "eos_token": "<|im_end|>"}


def test_other_pre_tokenizers(small):
    path = small(**{"ggml.pre": "gpt-2"})
    assert _text.load(path).encode("12") == [TOKENS.index("12")]
    path = small(**{"ggml.pre": "llama-bpe"})
    assert _text.load(path).encode("12") == [1, TOKENS.index("12")]
    path = small(**{"ggml.pre": "qwen2"})
    assert len(_text.load(path).encode("12")) == 2
    with pytest.raises(ValueError, match="one of gpt-2, smollm.*'other'"):
        _text.load(small(**{"ggml.pre": "other"}))
    with pytest.raises(ValueError, match="'gpt2' .*'llama'"):
        _text.load(small(**{"ggml.model": "llama"}))
    with pytest.raises(ValueError, match="expected merges of its tokens"):
        _text.load(small(**{"ggml.merges": ["hello nothere"]}))


def test_beginning_goes_before_raw_text_only(small):
    text = _text.load(small(**{"ggml.add_bos_token": True}))
    assert text.encode("hello")[0] == 1
    assert text.encode_chat("hello").count(1) == 2


def test_stream_waits_for_whole_characters(small):
    text = _text.load(small())
    ids = text.encode("h\u00e9 \U0001f600!")
    stream = _text.Stream(text, [])
    parts = [stream.add(token) for token in ids]
    assert "".join(parts) == "h\u00e9 \U0001f600!"
    assert "" in parts and not any("\ufffd" in part for part in parts)
    assert stream.finish() == ""
    stream = _text.Stream(text, text.encode("hello"))
    assert [stream.add(token) for token in ids[:2]] == ["h", ""]
    assert stream.finish() == "\ufffd"


def test_chat_formats(small):
    fallback = ("<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n")
    assert _text.load(small()).chat_text("hello") == fallback
    pytest.importorskip("jinja2")
    template = "{{ bos_token }}{{ messages[0]['content'] }}{{ eos_token }}"
    text = _text.load(small(chat_template=template))
    assert text.chat_text("hi") == "<|im_start|>hi<|im_end|>"
    for bad, message in (("{{ raise_exception('no users') }}", "no users"),
                         ("{% if %}", "chat template"),
                         # Files are untrusted.
                         ("{{ ''.__class__.__mro__[1].__subclasses__() }}",
                          "chat template")):
        with pytest.raises(ValueError, match=message):
            _text.load(small(chat_template=bad)).chat_text("hi")


def test_folder_gives_the_same_ids(small, tmp_path):
    text = _text.load(small())
    text.tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text('{"eos_token_id": [2, 7]}')
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(
        {"bos_token": {"content": "<|im_start|>"}, "eos_token": "<|im_end|>",
         "chat_template": "{{ messages[0].content }}"}))
    folder = _text.load(tmp_path)
    assert folder.encode("hello 12 hello") == text.encode("hello 12 hello")
    assert folder.end == {0, 2, 7} and folder.prefix == []
    assert folder.template == "{{ messages[0].content }}"
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="tokenizer.json"):
        _text.load(tmp_path)


def test_folder_without_tokenizer(llama):
    with pytest.raises(ValueError, match="expected a tokenizer.json"):
        _text.load(llama)


def test_gguf_metadata(tmp_path, llama):
    values = {"a": 7, "b": "text", "c": [1, 2, 3], "d": True, "e": 0.5,
              "f": ["x", ""]}
    path = tmp_path / "m.gguf"
    whole = gguf_bytes(values)
    path.write_bytes(whole)
    assert _gguf.read_metadata(str(path)) == values
    for length in range(len(whole)):  # every cut is noticed
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="gguf|GGUF"):
            _gguf.read_metadata(str(path))
    path.write_bytes(gguf_bytes(values, version=9))
    with pytest.raises(ValueError, match="version 2 or 3, got 9"):
        _gguf.read_metadata(str(path))
    with pytest.raises(ValueError, match="expected a GGUF file"):
        _gguf.read_metadata(str(llama / "config.json"))


def test_smollm_ids_are_those_of_plain_bpe(smollm):
    meta = _gguf.read_metadata(str(smollm))
    text = _text.load(smollm)
    for string in TEXTS:
        expected = plain_bpe(string, meta["tokenizer.ggml.tokens"],
                             meta["tokenizer.ggml.merges"])
        assert text.encode(string) == expected, string
    for string in (*TEXTS, "na\u00efve \u65e5\u672c\u8a9e \U0001f600 \u0663"):
        assert text.decode(text.encode(string)) == string


def test_smollm_chat(smollm):
    text = _text.load(smollm)
    ids = text.encode_chat("Hi")
    assert ids[0] == 1 and ids.count(1) >= 2 and 2 in text.end
    assert text.chat_text("Hi").endswith("<|im_start|>assistant\n")
    pytest.importorskip("jinja2")
    assert text.chat_text("Hi").startswith("<|im_start|>system\nYou are a")


def run_cli(*arguments):
    return subprocess.run([sys.executable, "-m", "heddle",
                           *map(str, arguments)],
                          capture_output=True, text=True, timeout=600)


def test_command_line_errors(llama, tmp_path):
    done = run_cli("report", llama, "--mesh", "xy=2")
    assert done.returncode == 1
    assert done.stderr.startswith("heddle: error: ")
    assert "has no default" in done.stderr and "Traceback" not in done.stderr
    done = run_cli("generate", tmp_path / "missing.gguf", "--prompt", "x")
    assert done.returncode == 1 and "missing.gguf" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("option, value, message", (
    ("--temperature", "-0.5", "temperature: expected numbers from 0 to 1000, "
     "got -0.5"),
    ("--top-k", "-1", "top_k: expected whole numbers from 0 .*, got -1"),
    ("--top-p", "1.5", "top_p: expected numbers above 0 and at most 1, got 1.5"),
    ("--min-p", "nan", "min_p: expected numbers from 0 to 1, got nan"),
    ("--seed", "4294967296", "seed: expected .* to 4294967295, got 4294967296"),
))
def test_command_line_refuses_sampling(llama, option, value, message):
    done = run_cli("generate", llama, "--prompt", "x", f"{option}={value}")
    assert done.returncode == 1
    assert re.fullmatch(f"heddle: error: {message}\n", done.stderr)


def test_command_line_report(llama):
    done = run_cli("report", llama, "--mesh", "tp=2")
    assert done.returncode == 0, done.stderr
    assert "each of 2 ranks holds" in done.stdout
    assert re.search(r"decode +all_reduce +\{tp\}", done.stdout)


def test_real_model_answers(smollm):
    done = run_cli("generate", smollm, "--mesh", "tp=3", "--seq", 128,
                   "--prompt", "What is the capital of France?")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "The capital of France is Paris."


def test_real_model_is_sampled(smollm):
    def answer(seed):
        done = run_cli("generate", smollm, "--mesh", "tp=2", "--seq", 128,
                       "--prompt", "Tell me a story.", "--max-new-tokens", 24,
                       "--temperature", 1, "--top-p", 0.95, "--seed", seed)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert answer(1) == answer(1) != answer(2)
