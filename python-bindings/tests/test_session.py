# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiling and running against golden numbers."""

import json
import os

import numpy as np
import pytest

import heddle
from heddle import _session

MODELS = ("tiny-llama", "tiny-mistral", "tiny-qwen2", "tiny-qwen3")
PROMPT = [35, 27, 23, 17, 17]


def forward(folder, tokens, mesh):
    """Logits [batch, token, vocabulary]."""
    tokens = np.array(tokens, np.int32)
    batch, count = tokens.shape
    bundle = heddle.compile(folder, mesh=mesh, program="forward", batch=batch,
                            seq=count)
    with heddle.Session(bundle, folder, poison=0x7FC00000) as session:
        session.set_input("forward", "tokens", tokens)
        positions = np.tile(np.arange(count, dtype=np.int32), (batch, 1))
        session.set_input("forward", "positions", positions)
        session.run("forward")
        return session.output("forward", "logits")


@pytest.mark.parametrize("mesh", ("tp=1", "tp=3"))
@pytest.mark.parametrize("model", MODELS)
def test_forward_gives_the_golden_logits(golden, model, mesh):
    folder = golden / model
    expected = np.array(json.loads((folder / "logits.json").read_text()))
    tokens = json.loads((folder / "tokens.json").read_text())
    got = forward(folder, tokens, mesh)
    assert got.dtype == np.float32 and got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("model", MODELS)
def test_generate_is_the_argmax_of_forward_on_every_mesh(golden, model):
    folder, count = golden / model, 8
    results = []
    for mesh in ("tp=1", "tp=2", "tp=3"):
        # Chunks of 3: the prompt takes two.
        bundle = heddle.compile(folder, mesh=mesh, seq=32, chunk=3)
        with heddle.Session(bundle, folder) as session:
            results.append(session.generate(PROMPT, count))
            session.generate([9, 9, 30, 1, 2, 3, 4], 5)  # leaves nothing behind
            assert session.generate(np.array(PROMPT), count) == results[-1]
    assert results[0] == results[1] == results[2]
    assert len(set(results[0])) > 1  # else the test would see little
    logits = forward(folder, [PROMPT + results[0][:-1]], "tp=1")
    expected = logits[0, len(PROMPT) - 1:].argmax(axis=-1)
    assert results[0] == expected.tolist()


def test_prompts_of_a_batch_do_not_meet(llama):
    prompts = [PROMPT, [1, 40], [9, 9, 30]]
    bundle = heddle.compile(llama, mesh="tp=2", seq=32, chunk=3, batch=3)
    alone = heddle.compile(llama, seq=32)
    steps = []
    with heddle.Session(bundle, llama) as session, \
            heddle.Session(alone, llama) as one:
        got = session.generate_batch(prompts, 4, steps.append)
        assert got == [one.generate(prompt, 4) for prompt in prompts]
        assert [list(step) for step in zip(*steps)] == got
        with pytest.raises(heddle.HeddleError, match="use generate_batch"):
            session.generate(PROMPT)
        with pytest.raises(heddle.HeddleError, match="expected 3 prompts"):
            session.generate_batch([PROMPT])


def test_sampling_is_a_function_of_its_inputs(llama):
    prompts = [PROMPT, PROMPT, [9, 9, 30]]
    bundle = heddle.compile(llama, mesh="tp=2", seq=32, chunk=3, batch=3)
    with heddle.Session(bundle, llama, poison=0x7FC00000) as session:
        greedy = session.generate_batch(prompts, 20)
        drawn = session.generate_batch(prompts, 20, temperature=1.0, seed=4)
        again = session.generate_batch(prompts, 20, temperature=1.0, seed=4)
        assert drawn == again != greedy
        assert drawn[0] != drawn[1]  # one seed, two sequences
        assert drawn != session.generate_batch(prompts, 20, temperature=1.0,
                                               seed=2**32 - 1)
        # Each sequence by itself; and nothing is left of earlier calls.
        mixed = session.generate_batch(prompts, 20, temperature=[0, 1.0, 9.0],
                                       top_k=np.array([0, 0, 1]), seed=4)
        assert mixed == [greedy[0], drawn[1], greedy[2]]
        assert session.generate_batch(prompts, 20) == greedy
        for message, options in (
                ("temperature: expected numbers from 0 .*, got -1",
                 {"temperature": -1}),
                ("top_k: expected whole numbers .*, got 1.5", {"top_k": 1.5}),
                ("top_p: expected numbers above 0 .*, got 0", {"top_p": 0}),
                ("top_p: expected numbers above 0 .*, got 1e-50",
                 {"top_p": 1e-50}),
                ("temperature: expected numbers .*, got 1e\\+50",
                 {"temperature": 1e50}),
                ("min_p: expected numbers from 0 to 1, got nan",
                 {"min_p": float("nan")}),
                ("seed: .* from 0 to 4294967295, got -1", {"seed": [1, 2, -1]}),
                ("seed: expected one value, or 3 of them, got 2",
                 {"seed": [1, 2]})):
            with pytest.raises(heddle.HeddleError, match=message) as raised:
                session.generate_batch(prompts, 2, **options)
            assert raised.value.code == 1


def test_one_prompt_is_sampled(llama):
    bundle = heddle.compile(llama, seq=32)
    with heddle.Session(bundle, llama) as session:
        drawn = session.generate(PROMPT, 16, temperature=1.0, top_k=20,
                                 top_p=0.9, min_p=0.01, seed=7)
        assert drawn == session.generate(PROMPT, 16, temperature=1.0, top_k=20,
                                         top_p=0.9, min_p=0.01, seed=7)
        assert drawn != session.generate(PROMPT, 16)


def test_tokens_stream_and_stop(llama):
    seen = []

    def on_token(token):
        seen.append(token)
        return len(seen) < 3

    bundle = heddle.compile(llama, seq=32)
    with heddle.Session(bundle, llama) as session:
        ids = session.generate(PROMPT, 8, on_token)
    assert ids == seen and len(ids) == 3


def test_real_model_continues_as_its_reference(stories):
    expected = json.loads((stories / "golden.json").read_text())
    bundle = heddle.compile(stories, mesh="tp=2", seq=64)
    with heddle.Session(bundle, stories) as session:
        assert (session.generate([1], 40)
                == expected["greedy_from_bos"][:40])


def test_report_adds_up_and_save_copies(llama, tmp_path):
    bundle = heddle.compile(llama, mesh="tp=2", seq=32)
    assert bundle.world_size == 2
    assert bundle.report["mesh"] == [{"name": "tp", "size": 2}]
    for rank in bundle.report["ranks"]:
        parts = sum(size for part, size in rank.items()
                    if part.endswith("_bytes") and part != "arena_bytes")
        assert parts == rank["arena_bytes"]
    copy = tmp_path / "copy.heddle"
    bundle.save(copy)
    temporary = bundle.path
    report = bundle.report
    del bundle
    assert not os.path.exists(temporary)
    assert heddle.Bundle(copy).report == report


def test_output_names_the_file(llama, tmp_path):
    path = tmp_path / "m.heddle"
    assert heddle.compile(llama, output=path, seq=32).path == str(path)
    assert path.exists()


def test_weights_report_progress_and_pass_exceptions_on(llama):
    bundle = heddle.compile(llama, seq=32)
    steps = []
    heddle.Session(bundle, "random:7",
                   progress=lambda *step: steps.append(step)).close()
    dones = [done for done, _ in steps]
    assert dones == sorted(dones) and steps[-1][0] == steps[-1][1] > 0

    def stop(_done, _total):
        raise KeyError("from progress")

    with pytest.raises(KeyError, match="from progress"):
        heddle.Session(bundle, llama, progress=stop)


def test_compiler_errors(llama, tmp_path):
    with pytest.raises(heddle.HeddleError, match="has no default") as raised:
        heddle.compile(llama, mesh="xy=2")
    assert raised.value.code is None
    with pytest.raises(heddle.HeddleError, match="missing"):
        heddle.compile(tmp_path / "missing")


def test_runtime_errors(llama, tmp_path):
    with pytest.raises(heddle.HeddleError, match="missing") as raised:
        heddle.Bundle(tmp_path / "missing.heddle")
    assert raised.value.code == 2
    junk = tmp_path / "junk.heddle"
    junk.write_bytes(b"junk" * 64)
    with pytest.raises(heddle.HeddleError):
        heddle.Bundle(junk)
    bundle = heddle.compile(llama, seq=16)
    with pytest.raises(heddle.HeddleError, match="missing"):
        heddle.Session(bundle, tmp_path / "missing.safetensors")
    with pytest.raises(ValueError, match="null"):
        heddle.Session(bundle, "a\0b")


def test_session_errors(llama):
    bundle = heddle.compile(llama, seq=16)
    with heddle.Session(bundle, llama) as session:
        for message, prompt, count in (
                ("seq 16, got 1 \\+ 100", [1], 100),
                ("vocabulary of 41, got 41", [41], 1),
                ("vocabulary of 41, got -1", [-1], 1),
                ("at least one token", [], 1),
                ("at least one new token", [1], 0)):
            with pytest.raises(heddle.HeddleError, match=message) as raised:
                session.generate(prompt, count)
            assert raised.value.code == 1
        with pytest.raises(heddle.HeddleError, match="expected i32 .* i64"):
            session.set_input("decode", "last", np.zeros((1, 1), np.int64))
        with pytest.raises(heddle.HeddleError, match="complex128"):
            session.set_input("decode", "last", np.zeros((1, 1), complex))
        with pytest.raises(heddle.HeddleError, match="last"):
            session.set_input("decode", "last", np.zeros((2, 1), np.int32))
        with pytest.raises(heddle.HeddleError, match="no state 'x'"):
            session.state("x")
        with pytest.raises(heddle.HeddleError, match="nothing"):
            session.run("nothing")
        assert session.generate([1], 1)  # errors leave it usable
    with pytest.raises(heddle.HeddleError, match="closed"):
        session.run("decode")
    session.close()
    wrong = heddle.compile(llama, seq=4, program="forward")
    with heddle.Session(wrong, llama) as session:
        with pytest.raises(heddle.HeddleError, match="program 'generate'"):
            session.generate([1])


def test_states_are_reset(llama):
    bundle = heddle.compile(llama, mesh="tp=2", seq=32)
    with heddle.Session(bundle, llama) as session:
        before = session.state("k_cache")
        session.generate(PROMPT, 2)
        assert session.state("k_cache").shape == before.shape
        assert (session.state("k_cache") != before).any()
        session.reset_states()
        assert (session.state("k_cache") == before).all()


def test_bf16_rounds_to_even():
    ulp = 2.0 ** -7  # of bfloat16 at 1
    values = np.array([1, -2.5, 1 + ulp / 2, 1 + 1.5 * ulp, 1 + 0.51 * ulp,
                       np.inf, -np.inf, 0.0, 3.4e38], np.float32)
    expected = [1, -2.5, 1, 1 + 2 * ulp, 1 + ulp, np.inf, -np.inf, 0, np.inf]
    assert _session.from_bf16(_session.to_bf16(values)).tolist() == expected
    nans = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001], np.uint32)
    assert np.isnan(_session.from_bf16(
        _session.to_bf16(nans.view(np.float32)))).all()


def test_missing_build_is_named(monkeypatch, tmp_path, llama):
    from heddle import _native
    monkeypatch.setenv("HEDDLE_BUILD", str(tmp_path))
    with pytest.raises(heddle.HeddleError, match="heddle-compile"):
        heddle.compile(llama)
    _native.library.cache_clear()
    with pytest.raises(heddle.HeddleError, match="heddle_rt_shared"):
        _native.library()
