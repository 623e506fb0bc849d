"""Numbers and tables as text, and in each format."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from handmade import KEEPS, atari_sequence, make_store
from rich.console import Console

from reaper.report.table_formats import csv_table, latex_escape, latex_table
from reaper.report.text_report import terminal_report
from reaper.report.text_table import TextTable, decimals_for, memory_unit, number


def test_numbers_as_text():
    assert (number(math.nan), number(-0.001), number(-0.5)) == ("–", "0.00", "-0.50")
    assert [decimals_for([value, math.nan]) for value in (22042, 12.5, 3)] == [0, 1, 2]
    assert [memory_unit([value])[0] for value in (7.063e9, 2.3e7, 9e5)] == ["GB", "MB", "kB"]


def test_no_number_is_cut_in_the_terminal(tmp_path: Path):
    console = Console(width=80, record=True, file=(tmp_path / "log").open("w"))
    for table in terminal_report(make_store(tmp_path / "run", {"RePR": KEEPS}, atari_sequence())):
        console.print(table)
    text = console.export_text()
    assert "22042 ± 5375" in text
    assert "…" not in text


def test_latex_is_escaped_and_whole():
    assert latex_escape("50 % of a_b & {c} #1 $x ~ ^ \\") == (
        r"50 \% of a\_b \& \{c\} \#1 \$x \textasciitilde{} \textasciicircum{} \textbackslash{}"
    )
    assert latex_escape("-0.5 ± 1 [-1, 2] no-reh –") == r"$-$0.5 $\pm$ 1 [$-$1, 2] no-reh --"
    text = latex_table(TextTable("A & B", ("x", "50 %"), [("a_1", "-1"), ("b", "2")], ["Note #1."]))
    lines = text.splitlines()
    assert lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")] == [r"a\_1 & $-$1 \\", r"b & 2 \\"]
    assert r"\caption{A \& B. Note \#1.}" in lines
    assert r"\begin{tabular}{lr}" in lines
    assert text.count(r"\begin{") == text.count(r"\end{") == 2


def test_csv_tables_survive_commas_and_quotes():
    table = TextTable("t", ("a", 'b, "c"'), [("x,y", "0.1 [0.0, 0.2]")])
    assert list(csv.reader(csv_table(table).splitlines())) == [["a", 'b, "c"'], ["x,y", "0.1 [0.0, 0.2]"]]
