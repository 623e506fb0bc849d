"""One thread for every test: two test processes share two cores, and results must not depend on the thread count."""

import pytest
import torch

from reaper.study import carry_out, plan

torch.set_num_threads(1)

# Small enough for a test, large enough that every stage does all it ever does.
TINY = {
    "play.games": 4,
    "play.replay-frames": 400,
    "play.replay-start": 40,
    "play.exploration-frames": 100,
    "short-term.observed-frames": 240,
    "short-term.best-window": 80,
    "short-term.target-every": 60,
    "long-term.observed-frames": 160,
    "long-term.best-window": 80,
    "generator.steps": 8,
    "generator.batch-size": 8,
    "generator.pseudo-items": 60,
    "rehearsal.items": 60,
    "rehearsal.limited-items": 12,
    "ewc.fisher-batches": 2,
    "evaluation.games": 2,
    "evaluation.every": 120,
}


def run_tiny(out, conditions, tasks="catch,dodge,frog", seeds=(0,), workers=1, overrides=None, **options):
    """Runs a shrunk study and returns its store."""
    study = plan(
        conditions, tasks, seeds, device="cpu", overrides={**TINY, **(overrides or {})}, workers=workers, **options
    )
    return carry_out(study, out, lambda stage, event: None)


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory):
    """A finished shrunk run of RePR and no-reh, not to be written to."""
    folder = tmp_path_factory.mktemp("tiny") / "run"
    run_tiny(folder, ["RePR", "no-reh"])
    return folder
