"""The examples in the documentation run."""

from __future__ import annotations

import ast
import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import laau
import pytest
from documents import python_blocks

FLAGS = doctest.IGNORE_EXCEPTION_DETAIL | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("name", ["laau", "laau._api", "laau._errors", "laau.torch", "laau.jax", "laau.gym"])
def test_docstrings(name: str) -> None:
    needed = {"laau.torch": "torch", "laau.jax": "jax", "laau.gym": "gymnasium"}.get(name)
    if needed:
        pytest.importorskip(needed)
    assert doctest.testmod(importlib.import_module(name), optionflags=FLAGS).failed == 0


def test_docstrings_of_the_extension() -> None:
    stub = Path(laau.__file__).with_name("_laau.pyi").read_text()
    runner, parser = doctest.DocTestRunner(optionflags=FLAGS), doctest.DocTestParser()
    for node in ast.walk(ast.parse(stub)):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and (text := ast.get_docstring(node)):
            runner.run(parser.get_doctest(text, {}, node.name, "_laau.pyi", node.lineno))
    assert runner.failures == 0
    assert runner.tries > 4


def test_the_stub_names_what_is_there() -> None:
    stub = ast.parse(Path(laau.__file__).with_name("_laau.pyi").read_text())
    module = importlib.import_module("laau._laau")
    for node in stub.body:
        if isinstance(node, ast.ClassDef):
            there = getattr(module, node.name)
            for member in node.body:
                if isinstance(member, ast.FunctionDef):
                    assert hasattr(there, member.name), f"{node.name}.{member.name}"
            known = {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
            public = {name for name in vars(there) if not name.startswith("_")}
            assert public <= known, node.name
        elif isinstance(node, ast.FunctionDef):
            assert callable(getattr(module, node.name))


def test_every_name_of_the_package_is_found() -> None:
    assert set(laau.__all__) <= set(dir(laau))
    for name in (*laau.__all__, "__version__"):
        assert getattr(laau, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'wrong'"):
        _ = laau.wrong


@pytest.mark.parametrize("block", python_blocks(), ids=lambda block: block.strip().splitlines()[0])
def test_the_readme_runs(block: str, tmp_path: Path) -> None:
    for name in ("torch", "jax", "gymnasium"):
        if f"laau.{name}" in block:
            pytest.importorskip(name)
    script = block.replace("(5000, 1000, 2000)", "(60, 20, 30)")
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path, timeout=300)


def test_the_readme_has_blocks() -> None:
    assert len(python_blocks()) > 1
