"""Which mutants are tried: a random sample of each package."""

from __future__ import annotations

import random
from hashlib import sha256
from pathlib import Path

from operators import Mutant, checked, find_mutants

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "equations": "equations",
    "memory": "memory",
    "networks": "networks",
    "tasks": "tasks",
    "learning": "learning",
    "evaluation": "learning/evaluation",
    "retention": "retention",
    "generators": "generators",
    "metrics": "results",
    "storage": "storage",
}
EQUIVALENT = Path(__file__).with_name("equivalent.txt")  # found by inspection, one `identity_of` per line


def package_of(file: str) -> str:
    """The longest path counts: evaluation is a part of learning, and stands by itself."""
    inside = file.removeprefix("src/reaper/")
    names = [name for name, path in PACKAGES.items() if inside.startswith(f"{path}/")]
    return max(names, key=lambda name: len(PACKAGES[name]))


def all_mutants() -> tuple[dict[str, list[Mutant]], dict[str, int]]:
    """Mutants by package, and how many of each were left out because only a GPU runs them."""
    found: dict[str, list[Mutant]] = {name: [] for name in PACKAGES}
    gpu_only = dict.fromkeys(PACKAGES, 0)
    for folder in sorted({path.split("/")[0] for path in PACKAGES.values()}):
        for path in sorted((ROOT / "src" / "reaper" / folder).rglob("*.py")):
            file, source = str(path.relative_to(ROOT)), path.read_bytes()
            mutants, left_out = find_mutants(file, source)
            found[package_of(file)] += checked(mutants, source)
            gpu_only[package_of(file)] += left_out
    return found, gpu_only


def sampled(mutants: dict[str, list[Mutant]], count: int | None, seed: int) -> list[Mutant]:
    """So many of each package, shuffled: what is done before an interruption is a sample, too."""
    chosen = []
    for name, candidates in mutants.items():
        rng = random.Random(f"{seed} {name}")
        chosen += candidates if count is None else rng.sample(candidates, min(count, len(candidates)))
    random.Random(seed).shuffle(chosen)
    return chosen


def key_of(mutant: Mutant) -> str:
    """A result is valid as long as the mutated file stays as it is."""
    return sha256(mutant.name.encode() + (ROOT / mutant.file).read_bytes()).hexdigest()[:16]


def identity_of(mutant: Mutant) -> str:
    """The file and its line with the fault: unlike the line's number, these stay when the rest of the file changes."""
    source = (ROOT / mutant.file).read_bytes()
    begin = source.rfind(b"\n", 0, mutant.start) + 1
    mutated = mutant.apply(source)[begin:].decode()
    return f"{mutant.file}: {mutated.partition(chr(10))[0].strip()}"


def equivalent_mutants() -> set[str]:
    """Mutants that change nothing that could be noticed."""
    lines = EQUIVALENT.read_text().splitlines() if EQUIVALENT.exists() else []
    return {line for line in lines if line and not line.startswith("#")}
