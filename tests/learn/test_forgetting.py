"""What the project is for, on three small environments: no-reh forgets, RePR does not, and its generator is why.

Long: about six minutes on two cores. One seed, so the bounds leave room for chance; docs/results has three seeds.
"""

import pytest

import reaper

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("learn") / "run"
    conditions = ["RePR", "no-reh", "reh", "RePR-untrained"]
    return {result.name: result for result in reaper.run(conditions, out=out, quiet=True)}


def test_teachers_score_far_above_chance(results):
    gain = results["RePR"].single.mean(axis=1) - results["RePR"].random.mean(axis=1)
    assert (gain > [30, 15, 30]).all()


def test_repr_retains_every_task(results):
    assert results["RePR"].matrix[-1].mean() >= 0.85
    assert results["reh"].matrix[-1].mean() >= 0.90


def test_without_retention_earlier_tasks_are_forgotten(results):
    assert results["no-reh"].matrix[-1, :2].mean() <= 0.45
    assert results["no-reh"].matrix[-1, 2] >= 0.85


def test_an_untrained_generator_helps_little(results):
    trained, untrained = results["RePR"].matrix[-1, :2].mean(), results["RePR-untrained"].matrix[-1, :2].mean()
    assert untrained < 0.6 * trained
