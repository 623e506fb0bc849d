"""Evaluating a policy that is not learnt here: on every task of a sequence, as one more row of a report.

The policy is a source of teachers (reaper/teachers): a function, an agent of SB3, one of ours. It meets the same
episodes as every agent of its seed. If the output folder holds runs on the same tasks, it is shown among them, and
normalised as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reaper.errors import UserError
from reaper.retention import NoRetention
from reaper.storage.records import RunRecord
from reaper.storage.store import Store
from reaper.study.chains import Chain
from reaper.study.conditions import CONDITIONS, Condition
from reaper.study.kinds.evaluate import EVALUATE
from reaper.study.kinds.short_term import SHORT_TERM
from reaper.study.options import DEFAULT_TASKS, StudyOptions
from reaper.study.plan import Plan, resolve
from reaper.tasks.sequence import find_sequence

MAX_NAME = 60


@dataclass
class PolicyChain(Chain):
    """Evaluations of one policy, a stage per task, and of random play."""

    source: str = ""
    alike: RunRecord | None = None  # a run on the same tasks, whose references normalise the policy's scores

    def record(self) -> RunRecord:
        """The references are those of the other run, or those that one with these settings would have."""
        names, inputs = self.sequence.names, self.inputs
        singles = [
            EVALUATE.stage(inputs, f"evaluate single {name}", (name,), SHORT_TERM.stage(inputs, name)).digest
            for name in names
        ]
        return replace(
            super().record(),
            policy=self.source,
            sources={},
            sequence=self.alike.sequence if self.alike else self.sequence.name,
            singles=self.alike.singles if self.alike else tuple(singles),
        )


def plan_evaluation(source: Any, options: StudyOptions, name: str | None = None) -> Plan:
    """Plans the evaluation of a policy on all tasks; `name` is that of its row."""
    sequence = find_sequence(options.tasks or DEFAULT_TASKS)
    given = dict.fromkeys(sequence.names, source)
    config = resolve(replace(options, tasks=sequence.name, teachers=given))
    label = name or _label(str(next(iter(config.external.files.values())).source))
    if label in CONDITIONS:
        raise UserError(f"{label} is a condition; give the policy another --name")
    condition = Condition(label, "single-task", NoRetention(), about=f"the policy {source}")
    settings, chains = config.sequence.complete(config.settings), []
    for seed in config.seeds:
        chain = PolicyChain(condition, config.sequence, seed, settings, external=config.external, source=str(source))
        chain.alike = _run_on(options.out, config.sequence.names, seed)
        chain.evaluations = [
            EVALUATE.stage(chain.inputs, f"evaluate {label} on {task}", (task,), config.external.weights(task))
            for task in config.sequence.names
        ]
        chain.random = EVALUATE.stage(chain.inputs, "evaluate random actions", config.sequence.names, None)
        chain.command = replace(options, tasks=sequence.name).command("evaluate", str(source), "--name", label)
        chains.append(chain)
    return Plan(replace(config, options=options), chains)


def _label(source: str) -> str:
    """A source as the name of a row, and so of a file."""
    plain = "".join(letter if letter.isalnum() or letter in "._" else "-" for letter in source.rpartition("/")[2])
    return plain.strip("-.")[:MAX_NAME] or "policy"


def _run_on(out: Path, tasks: tuple[str, ...], seed: int) -> RunRecord | None:
    if not (out / "reaper.json").exists():
        return None
    found = [run for run in Store.open(out).runs() if run.tasks == tasks and run.seed == seed and not run.policy]
    return found[0] if found else None
