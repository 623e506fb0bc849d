"""The paper's claims about its main experiment, each confirmed, refuted or open by what was measured.

RePR and another condition are compared seed by seed: the difference of their averages over tasks, normalised so that 0
is random play and 1 a DQN per task, with a 95 % interval over seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reaper.paper.results import average_ratio
from reaper.report.reproduction.evidence import BySeed, Group, unreplaced
from reaper.report.text_table import UNKNOWN, TextTable, number
from reaper.results.metrics import t_interval
from reaper.results.summary import AVERAGED

MARGIN = 0.1  # the paper calls its RePR close to reh, and it is 0.10 below
CLOSE, ABOVE, FAR_ABOVE = -MARGIN, 0.0, MARGIN
CONFIRMED, REFUTED, OPEN = "confirmed", "refuted", "open"


@dataclass(frozen=True)
class Claim:
    """A statement about RePR and another condition."""

    text: str
    other: str
    bound: float = FAR_ABOVE  # RePR minus the other condition is above it

    def verdict(self, differences: Sequence[float]) -> str:
        """Open where the interval over seeds allows either, and with fewer than two seeds."""
        low, high = t_interval(differences)
        if low > self.bound:
            return CONFIRMED
        return REFUTED if high < self.bound else OPEN


CLAIMS = (
    Claim("RePR is close to rehearsal with all items", "reh", CLOSE),
    Claim("RePR is far above no retention", "no-reh"),
    Claim("RePR is far above EWC", "ewc"),
    Claim("RePR is far above online EWC", "online-ewc"),
    Claim("RePR is far above PR, which has no second memory", "PR"),
    Claim("RePR is far above DGDMN", "DGDMN"),
    Claim("RePR is far above rehearsal with as many raw items as fit into its memory", "reh-limit"),
    Claim("RePR is above rehearsal with as many compressed items as fit into its memory", "reh-limit-comp", ABOVE),
)


def differences(group: Group, other: str) -> BySeed:
    """Seed -> RePR minus the other condition."""
    ours, theirs = group.levels("RePR"), group.levels(other)
    return {seed: ours[seed] - theirs[seed] for seed in ours.keys() & theirs.keys()}


def with_interval(by_seed: BySeed, decimals: int = 2, signed: bool = False) -> str:
    """The mean over seeds, its 95 % interval and the number of seeds."""
    if not by_seed:
        return UNKNOWN
    values = list(by_seed.values())
    mean = number(float(np.mean(values)), decimals)
    mean = f"+{mean}" if signed and not mean.startswith("-") and mean.strip("0.") else mean
    if len(values) == 1:
        return f"{mean} (seeds averaged)" if AVERAGED in by_seed else f"{mean} (1 seed)"
    low, high = t_interval(values)
    return f"{mean} [{number(low, decimals)}, {number(high, decimals)}] ({len(values)} seeds)"


def judged(groups: Sequence[Group]) -> list[Group]:
    """The groups that say something about a claim."""
    return [group for group in unreplaced(groups) if any(differences(group, claim.other) for claim in CLAIMS)]


def paper_difference(claim: Claim) -> float:
    """What the paper's own table gives."""
    return average_ratio("RePR") - average_ratio(claim.other)


def claims_table(groups: Sequence[Group]) -> TextTable:
    """One row per claim, with the paper's own difference, and ours with its verdict in every group."""
    measured = judged(groups)
    rows = []
    for claim in CLAIMS:
        found = [differences(group, claim.other) for group in measured]
        cells = [f"{claim.text} (`{claim.other}`)", f"{paper_difference(claim):+.2f}"]
        rows.append((*cells, *(_with_verdict(claim, values) for values in found)))
    notes = [
        "Differences of averages over tasks, RePR minus the other condition. In the paper's column an average is of "
        "scores divided by those of single-task DQNs; in ours, 0 is random play and 1 a DQN per task. In square "
        "brackets: 95 % intervals over seeds by Student's t, seed by seed.",
        f"Close: at most {MARGIN:.2f} below, which is the paper's own distance of RePR from reh. Far above: more than "
        f"{MARGIN:.2f} higher. Confirmed or refuted: the whole interval lies on one side of that. Open: it does not, "
        "or there is one seed, or none.",
    ]
    return TextTable("Claims", ("claim", "paper", *(group.name for group in measured)), rows, notes)


def claim_lines(groups: Sequence[Group]) -> list[str]:
    """The same as lines of text, one group after another."""
    lines = []
    for group in groups:
        found = {claim: differences(group, claim.other) for claim in CLAIMS}
        if any(found.values()):
            lines.append(group.label)
            lines += [
                f"  {claim.verdict(list(values.values())):<9}  {claim.text}: {with_interval(values, signed=True)}"
                for claim, values in found.items()
                if values
            ]
    return lines


def _with_verdict(claim: Claim, found: BySeed) -> str:
    if not found:
        return f"**{OPEN}**: not run yet"
    return f"**{claim.verdict(list(found.values()))}**: {with_interval(found, signed=True)}"


def summary_sentence(groups: Sequence[Group]) -> str:
    """How many claims are settled, in each group with two seeds or more."""
    parts = []
    for group in groups:
        found = [differences(group, claim.other) for claim in CLAIMS]
        if not any(len(values) > 1 for values in found):
            continue
        verdicts = [claim.verdict(list(values.values())) for claim, values in zip(CLAIMS, found, strict=True)]
        counts = ", ".join(f"{verdicts.count(word)} {word}" for word in (CONFIRMED, REFUTED, OPEN))
        parts.append(f"{group.name}: {counts} of {len(CLAIMS)} claims")
    return (
        "; ".join(parts) + "."
        if parts
        else "No claim can be judged yet: no group has two seeds that can be told apart."
    )
