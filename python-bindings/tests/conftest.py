# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the tests' models are; those that are not here skip their tests."""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def golden() -> pathlib.Path:
    return ROOT / "test" / "Golden"


@pytest.fixture(scope="session")
def llama(golden) -> pathlib.Path:
    return golden / "tiny-llama"


@pytest.fixture(scope="session")
def smollm() -> pathlib.Path:
    path = ROOT / "build" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    if not path.exists():
        pytest.skip("needs the model of tools/install-deps --model")
    return path


@pytest.fixture(scope="session")
def stories() -> pathlib.Path:
    path = ROOT.parent / "shared" / "data" / "stories260K"
    if not path.exists():
        pytest.skip("needs the folder stories260K of ../shared/data")
    return path
