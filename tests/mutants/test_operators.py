"""The mutants of a module: every fault once, and none where no test should notice."""

from operators import checked, find_mutants

SOURCE = '''
"""A module."""

LIMIT: int = 5


@decorated(depth=3)
def play(score: int | None, lives=2) -> bool:
    """Says something."""
    if lives > 1 and not score:
        raise ValueError(f"{lives + 1} lives")
    self.score += lives * 2
    log("text", 7)
    if device == "cuda":
        self.stream = 9
    return score
'''.lstrip().encode()


def mutations() -> list[tuple[str, str, str]]:
    mutants, _ = find_mutants("m.py", SOURCE)
    return [(mutant.operator, mutant.before, mutant.after) for mutant in mutants]


def test_every_kind_of_fault_is_made():
    found = mutations()
    for expected in [
        ("constant", "5", "(6)"),
        ("constant", "5", "(4)"),
        ("constant", "7", "(8)"),
        ("negated condition", "lives > 1 and not score", "(not (lives > 1 and (not score)))"),
        ("boolean", "lives > 1 and not score", "(lives > 1 or not score)"),
        ("comparison", "lives > 1", "(lives >= 1)"),
        ("removed operator", "not score", "(score)"),
        ("removed raise", 'raise ValueError(f"{lives + 1} lives")', "pass"),
        ("removed assignment", "self.score += lives * 2", "pass"),
        ("arithmetic", "self.score += lives * 2", "self.score -= lives * 2"),
        ("arithmetic", "lives * 2", "(lives / 2)"),
        ("removed call", 'log("text", 7)', "pass"),
        ("swapped arguments", 'log("text", 7)', "(log(7, 'text'))"),
        ("return value", "return score", "return None"),
    ]:
        assert found.count(expected) == 1, expected


def test_texts_annotations_decorators_and_what_only_a_gpu_runs_are_left_alone():
    mutants, gpu_only = find_mutants("m.py", SOURCE)
    # Of the branch for a GPU: its comparison, its assignment, and two constants.
    assert gpu_only == 4
    lines = {mutant.line for mutant in mutants}
    decorator, signature, message = 6, 7, 10
    assert decorator not in lines
    assert {m.before for m in mutants if m.line == signature} == {"2"}
    assert {m.operator for m in mutants if m.line == message} == {"removed raise"}


def test_a_mutant_differs_from_the_module_by_its_fault_alone():
    mutants, _ = find_mutants("m.py", SOURCE)
    assert list(checked(mutants, SOURCE)) == mutants  # all of them are Python
    for mutant in mutants:
        mutated = mutant.apply(SOURCE)
        assert mutated != SOURCE
        assert mutated.replace(mutant.after.encode(), mutant.before.encode(), 1).count(b"\n") == SOURCE.count(b"\n")


def test_arguments_of_symmetric_functions_are_not_exchanged():
    source = b"def f(a, b):\n    return max(a, b) + np.maximum(a, b) + math.dist(a, b)\n"
    swapped = [mutant.after for mutant in find_mutants("m.py", source)[0] if mutant.operator == "swapped arguments"]
    assert swapped == ["(math.dist(b, a))"]
