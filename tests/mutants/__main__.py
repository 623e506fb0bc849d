"""Mutation testing: makes small faults in the package, one at a time, and counts those that no test notices.

    python tests/mutants [--per-package 60 | --all] [--seed 0] [--seconds 20]

First the tests run once under coverage.py, in one process. Then each mutant meets the tests that run its line, the
quickest and closest first, until one fails. Results are kept in `runs/mutants`, and the same command continues there.
After a change of the code or of the tests, `--trace` finds out again which test runs which line; `--trace PATHS` does
so for some tests, if the code is as it was. `--again` repeats the mutants that survived.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from operators import Mutant
from sample import PACKAGES, ROOT, all_mutants, equivalent_mutants, identity_of, key_of, package_of, sampled
from tests_by_line import TestsByLine, trace
from trial import KILLED, SURVIVED, TIMED_OUT, PackageCopy, choose, import_libraries, run_trial, start_warm, time_limit

FOLDER = ROOT / "runs" / "mutants"
# Those of `make test` that may notice within seconds: of the mutated packages, and of damaged and hostile files. What
# the others would notice besides counts as survived.
UNITS = sorted({"config", *(path.split("/")[0] for path in PACKAGES.values())})
TESTS = (*(f"tests/unit/{name}" for name in UNITS), "tests/property", "tests/paper", "tests/samples")
TESTS += tuple(f"tests/durable/test_{name}.py" for name in ("damage", "hostile", "pack"))


def main() -> None:
    options = parse(sys.argv[1:])
    FOLDER.mkdir(parents=True, exist_ok=True)
    known, results = FOLDER / "tests.json", FOLDER / "results.jsonl"
    if options.trace is not None or not known.exists():
        found = trace(ROOT, FOLDER, options.trace or list(TESTS))
        if options.trace:
            found = TestsByLine.read(known).updated(found, options.trace)
        known.write_text(json.dumps(found.values))
    by_line = TestsByLine.read(known)
    mutants, gpu_only = all_mutants()
    chosen = sampled(mutants, None if options.all else options.per_package, options.seed)
    chosen = [mutant for mutant in chosen if options.only in mutant.file]
    done = read_results(results)
    if options.control:
        control(by_line, chosen[: options.control], options.seconds)
    elif not options.table:
        skip = {key for key, row in done.items() if not (options.again and row["status"] == SURVIVED)}
        done |= try_all(by_line, chosen, options.seconds, skip=skip, results=results)
    print(table(chosen, mutants, gpu_only, done))


def read_results(path: Path) -> dict[str, dict]:
    """By key; a later result replaces an earlier one."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {row["key"]: row for row in map(json.loads, lines)}


def try_all(
    by_line: TestsByLine, mutants: list[Mutant], seconds: float, *, skip: set[str], results: Path
) -> dict[str, dict]:
    """Tries every mutant that is not skipped, and appends what became of it to a file."""
    import_libraries()
    copy, equivalent, rows = PackageCopy(ROOT, FOLDER), equivalent_mutants(), {}
    warm = start_warm(copy, list(TESTS), FOLDER)
    for number, mutant in enumerate(mutants, 1):
        key = key_of(mutant)
        if key in skip or identity_of(mutant) in equivalent:
            continue
        start = time.monotonic()
        groups, complete = tests_for(by_line, mutant, seconds)
        limits = [time_limit(by_line, tests) for tests in groups]
        status = run_trial(copy, mutant, groups, limits, FOLDER / "trial.log", warm)
        took, asked = round(time.monotonic() - start, 1), sum(map(len, groups))
        rows[key] = {"key": key, "mutant": mutant.name, "identity": identity_of(mutant), "status": status}
        rows[key] |= {"package": package_of(mutant.file), "tests": asked, "complete": complete, "seconds": took}
        with results.open("a") as file:
            file.write(json.dumps(rows[key]) + "\n")
        print(f"{number}/{len(mutants)} {status:9} {took:5.1f} s  {mutant.name}", flush=True)
    return rows


def control(by_line: TestsByLine, mutants: list[Mutant], seconds: float) -> None:
    """Trials without a fault: every test must pass, or a failure would not be the mutant's."""
    import_libraries()
    copy = PackageCopy(ROOT, FOLDER)
    for mutant in mutants:
        groups, _ = tests_for(by_line, mutant, seconds)
        limits = [time_limit(by_line, tests) for tests in groups]
        status = run_trial(copy, None, groups, limits, FOLDER / "trial.log")
        passed = "passed" if status == SURVIVED else f"FAILED ({status})"
        print(f"{passed}: {sum(map(len, groups))} tests of {mutant.name}", flush=True)


def tests_for(by_line: TestsByLine, mutant: Mutant, seconds: float) -> tuple[list[list[str]], bool]:
    """The tests that run a mutant's lines. Where none is known to, because the line runs at import or in a process that
    was killed before it could tell, those that run anything of its file (if there is only data in it, of its package),
    and all that take next to no time."""
    tests = set() if mutant.at_import else by_line.of_lines(mutant.file, mutant.lines)
    if not tests:
        path = f"src/reaper/{PACKAGES[package_of(mutant.file)]}/"
        tests = by_line.of_files([mutant.file]) or by_line.of_files(f for f in by_line.lines if f.startswith(path))
        tests |= by_line.quick()
    return choose(by_line, tests, mutant.file, seconds)


def table(chosen: list[Mutant], mutants: dict[str, list[Mutant]], gpu_only: dict[str, int], done: dict) -> str:
    """Markdown, one row per package. Of the mutants that were tried, equivalent ones are only counted."""
    equivalent = equivalent_mutants()
    rows = {}
    for name in PACKAGES:
        own = [mutant for mutant in chosen if package_of(mutant.file) == name]
        same = [mutant for mutant in own if identity_of(mutant) in equivalent]
        found = [done[key]["status"] for mutant in own if mutant not in same and (key := key_of(mutant)) in done]
        ends = [found.count(status) for status in (KILLED, TIMED_OUT, SURVIVED)]
        rows[name] = [len(mutants[name]), gpu_only[name], len(same), len(found), *ends]
    rows["all"] = [sum(column) for column in zip(*rows.values(), strict=True)]
    lines = ["| package | possible | GPU only | equivalent | tried | killed | timed out | survived | died |"]
    lines.append("|---|" + "---:|" * 8)
    for name, counts in rows.items():
        *_, tried, killed, timed_out, _ = counts
        died = f"{100 * (killed + timed_out) / tried:.0f} %" if tried else "-"
        lines.append(f"| {name} | {' | '.join(map(str, counts))} | {died} |")
    return "\n".join(lines)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--per-package", type=int, default=60, metavar="N", help="mutants tried per package")
    parser.add_argument("--all", action="store_true", help="try every mutant")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--seconds", type=float, default=20.0, help="of tests per mutant at most")
    parser.add_argument("--only", default="", metavar="TEXT", help="only files with this in their path")
    parser.add_argument("--trace", nargs="*", metavar="TESTS", help="find out again which test runs which line")
    parser.add_argument("--again", action="store_true", help="repeat the mutants that survived")
    parser.add_argument("--control", type=int, metavar="N", help="run the tests of N mutants without the mutants")
    parser.add_argument("--table", action="store_true", help="only print the table")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
