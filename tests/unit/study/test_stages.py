"""Stages and their digests: what a stage depends on, and what leaves its digest alone."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import TINY, plan_tiny

import reaper
from reaper.study.kinds.base import Inputs, Load
from reaper.study.kinds.evaluate import EVALUATE
from reaper.study.kinds.fisher import FISHER, OVERLAP
from reaper.study.kinds.student import STUDENT
from reaper.study.stages import KINDS, load_of

PACKAGE = Path(reaper.__file__).parent


def chain_of(condition, **overrides):
    (chain,) = plan_tiny([condition], tasks="catch,dodge", overrides=overrides).chains
    return chain


def digests(chain):
    return [stage.digest for stage in chain.stages]


def test_a_spec_has_only_values_that_differ_from_the_defaults():
    chain = chain_of("ewc", **{"ewc.ewc-lambda": 50, "optimiser.decay": 0.99})
    teacher, memory = chain.teachers[1].spec, chain.memories[1].spec
    assert teacher["settings"].keys() == {
        "observation", "network", "optimiser", "training", "short_term", "evaluation"
    }  # fmt: skip
    assert teacher["settings"]["optimiser"] == {"name": "adam", "learning_rate": 5e-4, "epsilon": 1e-5}
    assert memory["settings"]["methods"] == {"ewc": {"ewc_lambda": 50.0}}
    assert memory["axes"] == {"objective": "distillation", "retention": "ewc", "knowledge": "Q-values"}


@pytest.mark.parametrize(
    ("condition", "override"),
    [
        ("RePR", {"ewc.ewc-lambda": 1}),  # of another retention method
        ("reh", {"gan.steps": 2}),  # of a generator that rehearsal does not use
        ("reh", {"limited-rehearsal.capacity": 3}),
        ("RePR", {"short-term.discount": 0.97}),  # the preset's value
    ],
)
def test_a_setting_that_a_stage_does_not_depend_on_leaves_its_digest_alone(condition, override):
    assert digests(chain_of(condition, **override)) == digests(chain_of(condition))


@pytest.mark.parametrize(
    ("condition", "override"),
    [("ewc", {"ewc.ewc-lambda": 1}), ("RePR", {"gan.noise": 0}), ("RePR", {"long-term.alpha": 0.1})],
)
def test_a_setting_that_a_stage_depends_on_changes_its_digest(condition, override):
    before, after = chain_of(condition), chain_of(condition, **override)
    assert before.memories[1].digest != after.memories[1].digest
    assert before.teachers[1].digest == after.teachers[1].digest


def test_the_first_memory_does_not_depend_on_how_later_tasks_are_weighed():
    first = chain_of("ewc").memories[0].digest
    assert chain_of("ewc", **{"ewc.ewc-lambda": 1, "long-term.alpha": 0.1}).memories[0].digest == first
    assert chain_of("ewc", **{"fisher.batches": 3}).memories[0].digest != first


def test_titles_say_what_a_stage_does():
    assert [stage.title for stage in chain_of("DGDMN").stages] == [
        "learn catch (seed 0)",
        "learn dodge (seed 0)",
        "train generator on catch (seed 0)",
        "train generator on dodge (seed 0)",
        "DGDMN: consolidate catch (seed 0)",
        "DGDMN: consolidate dodge (seed 0)",
        "evaluate after catch (seed 0)",
        "DGDMN: evaluate after dodge (seed 0)",
        "evaluate single catch (seed 0)",
        "evaluate single dodge (seed 0)",
        "evaluate random actions (seed 0)",
    ]


def test_the_work_of_every_kind_of_stage():
    """TINY: 240 and 160 agent steps of short- and long-term training, evaluated every 120 with 2 episodes per task."""
    chain = chain_of("DGDMN")
    assert load_of(chain.teachers[0]) == Load(training_steps=240, episodes=2 * 1 * 2)
    assert load_of(chain.generators[0]) == Load(collected_steps=240, generator_steps=8)
    assert load_of(chain.memories[0]) == Load()  # the short-term generator is adopted
    # ceil(160 / 120) = 2 evaluations of two tasks
    assert load_of(chain.memories[1]) == Load(training_steps=160, generator_steps=8, episodes=2 * 2 * 2)
    assert [load_of(stage) for stage in chain.evaluations] == [Load(episodes=1 * 2), Load(episodes=2 * 2)]
    ewc, none = chain_of("ewc"), chain_of("no-reh")
    assert load_of(ewc.memories[0]) == Load(collected_steps=240, fisher_batches=2)
    assert load_of(none.memories[0]) == Load()
    inputs, names = chain.inputs, chain.sequence.names
    real = STUDENT.stage(inputs, names, "real", teacher=chain.memories[1], sources=chain.teachers)
    assert load_of(real) == Load(training_steps=160, collected_steps=2 * 240, episodes=2 * 2 * 2)
    fisher = FISHER.stage(inputs, "RePR", "catch", agent=chain.memories[1], teacher=chain.teachers[0])
    assert load_of(fisher) == Load(collected_steps=240, fisher_batches=2)
    assert load_of(OVERLAP.stage(inputs, "RePR", names, [fisher, fisher])) == Load()


def test_a_stage_without_a_subject_has_no_parents():
    chain = chain_of("no-reh")
    stage = EVALUATE.stage(Inputs(chain.settings, 6, seed=3), "evaluate random actions", ("catch",), None)
    assert (stage.parents, stage.kind, stage.title) == ({}, "evaluate", "evaluate random actions (seed 3)")


def test_kinds_have_the_names_of_their_random_streams():
    """Renaming a kind would change every random number drawn in its stages."""
    assert list(KINDS) == [
        "short-term", "teacher weights", "external teacher", "distil", "short-term generator", "consolidate",
        "evaluate", "student", "fisher", "overlap",
    ]  # fmt: skip


# -- settings that are added later

PLAN = """
import json, sys
from pathlib import Path
from reaper import load
from reaper.config.overrides import setting_names
from reaper.study.options import StudyOptions
from reaper.study.plan import plan
from reaper.study.experiments import plan_experiment
from reaper.study.conditions import CONDITIONS

options = StudyOptions(tasks="catch,dodge", device="cpu", workers=1, overrides=json.loads(sys.argv[1]))
studies = [plan(list(CONDITIONS), options)]
studies += [plan_experiment(name, options) for name in ("item-quality", "overlap", "ewc-search")]
digests = [[stage.title, stage.digest] for study in studies for stage in study.stages]
zoo = {name: load(f"pretrained:{name}").tasks for name in ("arcade-3",)}
print(json.dumps({"names": setting_names(), "digests": digests, "zoo": zoo}))
"""


def planned_with(package, *words):
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    command = [sys.executable, "-c", PLAN, json.dumps(TINY), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_a_new_setting_changes_no_digest_and_the_zoo_opens(tmp_path):
    """A later version: one more field in a group, in the GAN and in a retention method, each with a default."""
    later = tmp_path / "later" / "reaper"
    shutil.copytree(PACKAGE, later)
    additions = {
        "config/settings.py": ("    num_envs: int", '    novelty: float = probability(0.25, "new")\n'),
        "generators/gan/gan.py": ("    latent_size: int", '    novelty: float = positive(3.0, "new")\n'),
        "retention/ewc.py": ("    ewc_lambda: float = setting(300", '    novelty: int = setting(1, "new")\n'),
    }
    for file, (before, line) in additions.items():
        text = (later / file).read_text()
        assert text.count(before) == 1
        (later / file).write_text(text.replace(before, line + before))
    now, then = planned_with(PACKAGE), planned_with(later)
    assert set(then["names"]) - set(now["names"]) == {"training.novelty", "gan.novelty", "ewc.novelty"}
    assert len(now["digests"]) > 100
    assert then["digests"] == now["digests"]
    assert then["zoo"] == now["zoo"]
