"""Mutants: small faults, one each, made from the syntax tree of a module.

Not mutated, because no test should notice: annotations, decorators, strings (texts for people, keys of files and random
streams), what an error says, and code that runs only on a GPU.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
SYMMETRIC = {"max", "min", "maximum", "minimum", "array_equal", "allclose", "isclose"}  # functions of two arguments
# In the condition of a branch, or in a statement, that does something only on a GPU.
GPU = re.compile(
    r"cuda|_gpu\b|_captures|_graph\b|graphs\b|_stream\b|_may_start|_gate\b|pin_memory|pinned|non_blocking|_skips_guards"
    r"|_up_to_date|invalidate\(|synchronize\(|allow_next\(|wait_for_learner\(|make_learner_wait\(|use_own_stream\("
)
# Functions and classes that do.
GPU_NAMES = {"MappedHostMemory", "_push_and_choose", "allow_next", "free_bytes", "make_learner_wait", "synchronize"}
GPU_NAMES |= {"use_own_stream", "wait_for_learner"}


@dataclass(frozen=True)
class Mutant:
    """One fault: what replaces the bytes from `start` to `end` of a file."""

    file: str
    line: int
    operator: str
    before: str
    after: str
    start: int
    end: int
    lines: tuple[int, ...]  # those that run if the fault does
    at_import: bool  # outside of functions, so that no test runs it by itself

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line} {self.operator}: {_short(self.before)} -> {_short(self.after)} @{self.start}"

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.end :]


def _short(code: str) -> str:
    return " ".join(code.split())[:70]


class _Finder(ast.NodeVisitor):
    """Walks through a module and lists its mutants."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file, self.source = file, source
        self.text = source.decode()
        self.line_starts = [0]
        for line in source.splitlines(keepends=True):
            self.line_starts.append(self.line_starts[-1] + len(line))
        self.mutants: list[Mutant] = []
        self.gpu_only = 0
        self.functions, self.gpu = 0, 0  # depth
        self.statement: ast.stmt | None = None

    # -- where

    def span(self, node: ast.AST) -> tuple[int, int]:
        start = self.line_starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = self.line_starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return start, end

    def code(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.source[start:end].decode()

    def add(self, node: ast.AST, operator: str, after: str) -> None:
        start, end = self.span(node)
        before = self.source[start:end].decode()
        assert self.statement is not None
        if self.gpu or GPU.search(before):
            self.gpu_only += 1
            return
        first, last = self.statement.lineno, node.end_lineno  # type: ignore[attr-defined]
        lines = tuple(range(min(first, node.lineno), last + 1))  # type: ignore[attr-defined]
        self.mutants.append(
            Mutant(self.file, node.lineno, operator, before, after, start, end, lines, not self.functions)  # type: ignore[attr-defined]
        )

    def replace(self, node: ast.expr, operator: str, change: Callable[[ast.expr], ast.expr | None]) -> None:
        changed = change(copy.deepcopy(node))
        if changed is not None:
            self.add(node, operator, f"({ast.unparse(changed)})")

    # -- statements

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            outer, self.statement = self.statement, node
            super().generic_visit(node)
            self.statement = outer
        else:
            super().generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Defaults belong to the module's import; decorators and annotations are left alone."""
        outer, self.statement = self.statement, node
        for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(default)
        self.functions += 1
        self._named_body(node)
        self.functions -= 1
        self.statement = outer

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._named_body(node)

    def _named_body(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        self.gpu += node.name in GPU_NAMES
        self._body(node.body)
        self.gpu -= node.name in GPU_NAMES

    def _body(self, body: list[ast.stmt]) -> None:
        for number, statement in enumerate(body):
            is_docstring = number == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if not is_docstring:
                self.visit(statement)

    def visit_Module(self, node: ast.Module) -> None:
        self._body(node.body)

    def visit_Import(self, node: ast.AST) -> None:
        pass

    visit_ImportFrom = visit_Import
    visit_JoinedStr = visit_Import  # texts

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            outer, self.statement = self.statement, node
            self.visit(node.value)
            self.statement = outer

    def _removed(self, node: ast.stmt, operator: str, instead: str = "pass") -> None:
        outer, self.statement = self.statement, node
        self.add(node, operator, instead)
        self.statement = outer

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        if isinstance(node.value, ast.Call):
            self._removed(node, "removed call")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if self.functions and any(isinstance(target, (ast.Attribute, ast.Subscript)) for target in node.targets):
            self._removed(node, "removed assignment")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._removed(node, "removed assignment")
        other = ARITHMETIC.get(type(node.op))
        if other:
            changed = copy.deepcopy(node)
            changed.op = other()
            self._removed(node, "arithmetic", ast.unparse(changed))
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._removed(node, "removed raise")  # not what it says

    def visit_Break(self, node: ast.Break) -> None:
        self._removed(node, "removed break")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._removed(node, "removed continue")

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self._removed(node, "return value", "return None")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        condition = self.code(node.test)
        if condition == "TYPE_CHECKING":
            return
        outer, self.statement = self.statement, node
        self._negated(node.test)
        self.visit(node.test)
        self.gpu += bool(GPU.search(condition))
        for statement in node.body:
            self.visit(statement)
        self.gpu -= bool(GPU.search(condition))
        for statement in node.orelse:
            self.visit(statement)
        self.statement = outer

    def visit_While(self, node: ast.While) -> None:
        outer, self.statement = self.statement, node
        self._negated(node.test)
        self.statement = outer
        self.generic_visit(node)

    # -- expressions

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.functions += 1
        self.visit(node.body)
        self.functions -= 1

    def _negated(self, node: ast.expr) -> None:
        if not isinstance(node, ast.Compare):  # the other comparison does as much
            self.replace(node, "negated condition", lambda it: ast.UnaryOp(ast.Not(), it))

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negated(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for condition in node.ifs:
            self._negated(condition)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for number, operation in enumerate(node.ops):
            other = COMPARISONS[type(operation)]

            def change(it: ast.Compare, number: int = number, other: type[ast.cmpop] = other) -> ast.Compare:
                it.ops[number] = other()
                return it

            self.replace(node, "comparison", change)  # type: ignore[arg-type]
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        is_text = any(isinstance(side, ast.JoinedStr) for side in (node.left, node.right))
        other = ARITHMETIC.get(type(node.op))
        if other and not is_text:

            def change(it: ast.BinOp) -> ast.BinOp:
                it.op = other()
                return it

            self.replace(node, "arithmetic", change)  # type: ignore[arg-type]
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        def change(it: ast.BoolOp) -> ast.BoolOp:
            it.op = ast.And() if isinstance(it.op, ast.Or) else ast.Or()
            return it

        self.replace(node, "boolean", change)  # type: ignore[arg-type]
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        self.replace(node, "removed operator", lambda it: it.operand)  # type: ignore[attr-defined]
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.add(node, "constant", f"{not value}")
        elif isinstance(value, (int, float)):
            self.add(node, "constant", f"({value + 1!r})")
            self.add(node, "constant", f"({value - 1!r})")

    def visit_Call(self, node: ast.Call) -> None:
        plain = [argument for argument in node.args if not isinstance(argument, ast.Starred)]
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in SYMMETRIC and len(plain) == 2:
            self.generic_visit(node)
            return
        if len(plain) == len(node.args) >= 2 and ast.dump(node.args[0]) != ast.dump(node.args[1]):

            def change(it: ast.Call) -> ast.Call:
                it.args[:2] = it.args[1::-1]
                return it

            self.replace(node, "swapped arguments", change)  # type: ignore[arg-type]
        self.generic_visit(node)


def find_mutants(file: str, source: bytes) -> tuple[list[Mutant], int]:
    """All mutants of a module, and how many were left out because only a GPU runs them."""
    finder = _Finder(file, source)
    finder.visit(ast.parse(source))
    return finder.mutants, finder.gpu_only


def checked(mutants: list[Mutant], source: bytes) -> Iterator[Mutant]:
    """Those that are Python: a replacement may break the layout of its line."""
    for mutant in mutants:
        try:
            compile(mutant.apply(source), mutant.file, "exec")
        except SyntaxError:
            continue
        yield mutant
