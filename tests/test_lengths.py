"""Files and functions are short."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src/dree"
LINES, FUNCTION = 300, 60  # of a file, and of a body
CHARACTERS = 120  # of a line; in Python the linter counts them


def long_functions(code: str) -> list[str]:
    """The functions of a file whose bodies are too long, by name; kernels for GPUs may be longer."""
    functions = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)]
    return [each.name for each in functions if _lines(each) > FUNCTION and not _is_kernel(each)]


def _lines(function: ast.FunctionDef) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.body[0].lineno + 1


def _is_kernel(function: ast.FunctionDef) -> bool:
    return any("triton.jit" in ast.unparse(decorator) for decorator in function.decorator_list)


def test_a_file_has_at_most_300_lines():
    counts = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCE.rglob("*.py")}
    assert len(counts) > 200
    assert {str(path): count for path, count in counts.items() if count > LINES} == {}


def test_a_line_in_cuda_has_at_most_120_characters():
    paths = [*SOURCE.rglob("*.cu*"), *Path(__file__).parent.rglob("*.h")]
    assert len(paths) > 4
    long = [(path.name, line) for path in paths for line in path.read_text().splitlines() if len(line) > CHARACTERS]
    assert long == []


def test_the_body_of_a_function_has_at_most_60_lines_unless_it_is_a_kernel():
    assert [(str(path), name) for path in SOURCE.rglob("*.py") for name in long_functions(path.read_text())] == []


def test_long_functions_are_noticed():
    body = "    pass\n" * 60
    assert long_functions(f"def short(\n    a,\n    b,\n):\n{body}\ndef long():\n{body}    pass") == ["long"]
    assert long_functions(f"@triton.jit\ndef kernel():\n{body}    pass") == []
