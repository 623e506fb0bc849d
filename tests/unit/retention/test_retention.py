"""What retention methods add to the loss and pass on to the next memory, against arithmetic done by hand."""

from dataclasses import replace

import pytest
import torch
from conftest import TINY

from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE
from reaper.context import Context, state_tensors
from reaper.errors import UserError
from reaper.learning.knowledge import Policy, QValues, StandardisedQValues
from reaper.memory.compression import LzmaCodec, ZlibCodec
from reaper.memory.items import Items
from reaper.memory.long_term import LongTermMemory
from reaper.retention import (
    EWC,
    CompressedRehearsal,
    LimitedRehearsal,
    NoRetention,
    OnlineEWC,
    PseudoRehearsal,
    Rehearsal,
    UntrainedGenerator,
)
from reaper.retention.rehearsal import RecalledItems, _fill, _filled, _packed

SETTINGS = with_overrides(ARCADE, {**TINY, "long-term.alpha": 0.25})
CONTEXT = Context(SETTINGS, 6, 0, ("test",))
LOSSES = torch.tensor([1.0, 3.0])


def network(shift: float = 0.0):
    """The same network every time, with all parameters moved by `shift`."""
    built = CONTEXT.q_network()
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(shift)
    return built


def constant(value: float) -> dict[str, torch.Tensor]:
    return {name: torch.full_like(p, value) for name, p in network().named_parameters()}


PARAMETERS = sum(p.numel() for p in network().parameters())


def test_no_retention_adds_nothing_to_the_loss():
    memory = LongTermMemory(state_tensors(network()), ("a",))
    recall = NoRetention().recall(CONTEXT, memory, QValues(), network())
    assert recall.sample(5) == ()
    assert recall.combine(LOSSES, list(network(5.0).parameters())).item() == 2.0


def test_ewc_has_a_penalty_for_every_earlier_task():
    retained = {f"fisher.0.{name}": value for name, value in constant(2.0).items()}
    retained |= {f"fisher.1.{name}": value for name, value in constant(3.0).items()}
    retained |= {f"anchor.0.{name}": value for name, value in state_tensors(network(-0.5)).items()}
    memory = LongTermMemory(state_tensors(network()), ("a", "b"), retained)
    recall = EWC(ewc_lambda=4.0).recall(CONTEXT, memory, QValues(), network())
    # The second anchor is the agent itself: nothing. The first is 0.5 away everywhere: 2 * 0.25 per parameter.
    at_agent = recall.combine(LOSSES, list(network().parameters())).item()
    assert at_agent == pytest.approx(2.0 + 4.0 / 2 * 2.0 * 0.25 * PARAMETERS, rel=1e-4)
    # Moved by 0.1: 2 * 0.36 + 3 * 0.01 per parameter.
    moved = recall.combine(LOSSES, list(network(0.1).parameters())).item()
    assert moved == pytest.approx(2.0 + 4.0 / 2 * (2.0 * 0.36 + 3.0 * 0.01) * PARAMETERS, rel=1e-4)


def test_online_ewc_has_one_penalty_anchored_at_the_agent():
    retained = {f"fisher.{name}": value for name, value in constant(0.5).items()}
    memory = LongTermMemory(state_tensors(network()), ("a", "b", "c"), retained)
    recall = OnlineEWC(ewc_lambda=10.0).recall(CONTEXT, memory, QValues(), network())
    assert recall.combine(LOSSES, list(network().parameters())).item() == pytest.approx(2.0)
    moved = recall.combine(LOSSES, list(network(0.1).parameters())).item()
    assert moved == pytest.approx(2.0 + 10.0 / 2 * 0.5 * 0.01 * PARAMETERS, rel=1e-4)


def test_the_online_fisher_is_normalised_then_decayed():
    states = Items(torch.randint(0, 256, (80, 2, 16, 16), generator=torch.Generator().manual_seed(0)).to(torch.uint8))
    memory = LongTermMemory({}, ("a",), {f"fisher.{name}": value for name, value in constant(1.0).items()})
    first = OnlineEWC().remember(CONTEXT, None, network(), states).retained
    second = OnlineEWC().remember(CONTEXT, memory, network(), states).retained
    values = torch.cat([value.flatten() for value in first.values()])
    assert (values.min().item(), values.max().item()) == (0.0, 1.0)
    for name, value in first.items():
        torch.testing.assert_close(second[name], 0.99 * 1.0 + value)


def test_rehearsed_items_are_weighed_against_the_new_task():
    items = Items(torch.zeros(4, 2, 16, 16, dtype=torch.uint8), torch.ones(4, 6))
    recall = RecalledItems(CONTEXT, items, QValues(), tasks_before=1)
    states, targets = recall.sample(10)
    assert states.shape == (10, 2, 16, 16)
    outputs = torch.full((10, 6), 3.0)  # off by two for each of six actions: 6 * 2**2 = 24
    loss = recall.combine(torch.tensor(2.0), [], outputs, targets)
    assert loss.item() == pytest.approx(0.25 * 2.0 + 0.75 * 24.0)


def test_each_kind_of_knowledge_has_its_own_loss():
    teacher, student = torch.tensor([[1.0, 5.0, 3.0]]), torch.tensor([[0.0, 0.0, 0.0]])
    assert QValues().distill(student, teacher, 0, 0).tolist() == [35.0]  # 1 + 25 + 9
    # Mean 3, deviation 2: the targets are -1, 1, 0.
    assert StandardisedQValues().distill(student, teacher, 3.0, 2.0).tolist() == [2.0]
    # Three equal logits: the best action has probability 1/3, and -log(1/3) = 1.098612.
    assert Policy().distill(student, teacher, 0, 0).item() == pytest.approx(1.098612)


@pytest.mark.parametrize("method", [EWC(), OnlineEWC()])
def test_the_fisher_matrix_of_a_network_that_uses_space_to_depth_is_the_same(method):
    """As on a GPU: such a network calls no layer, and the Fisher matrix is computed layer by layer."""
    states = torch.randint(0, 256, (64, 2, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    found = []
    for space_to_depth in (False, True):
        agent = network()
        agent.space_to_depth = space_to_depth
        found.append(method.remember(CONTEXT, None, agent, Items(states)).retained)
    assert found[0].keys() == found[1].keys()
    for name, tensor in found[0].items():
        assert torch.equal(tensor, found[1][name]), name


@pytest.mark.parametrize("method", [EWC, OnlineEWC])
def test_the_fisher_matrix_of_a_policy_is_that_of_its_softmax_output(method):
    states = torch.randint(0, 256, (40, 2, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    assert method().settings_for(Policy()) == {"fisher_output": "softmax"}
    assert method().settings_for(QValues()) == {}
    agent = network()
    with torch.no_grad():  # the first action has probability 2/7 in every state, the other five 1/7
        agent.values.weight.zero_()
        agent.values.bias.copy_(torch.tensor([2.0, 1.0, 1.0, 1.0, 1.0, 1.0]).log())
    name = "fisher.0.values.bias" if method is EWC else "fisher.values.bias"
    linear, softmax = (
        method(fisher_output=output).remember(CONTEXT, None, agent, Items(states)).retained[name]
        for output in ("linear", "softmax")
    )
    assert linear.tolist() == pytest.approx([1.0] * 6)
    if method is EWC:
        # d p_a / d b_a = p_a (1 - p_a) and d p_c / d b_a = -p_a p_c: first (10^2 + 5 * 2^2) / 49^2, then
        # (6^2 + 2^2 + 4 * 1^2) / 49^2.
        assert softmax.tolist() == pytest.approx([120 / 49**2] + [44 / 49**2] * 5)
    else:  # normalised, so that only the order is as expected
        assert softmax[0] == 1.0
        assert softmax[1:].max() < 0.5


# -- what is passed on

AGENT = state_tensors(network())
STATES = Items(torch.randint(0, 256, (80, 2, 16, 16), generator=torch.Generator().manual_seed(1)).to(torch.uint8))


def learn_two_tasks(method):
    """The memory after two tasks whose states are the same."""
    memory = None
    for tasks in (("a",), ("a", "b")):
        remembered = method.remember(CONTEXT, memory, network(), STATES)
        memory = LongTermMemory(AGENT, tasks, remembered.retained)
    return memory


METHODS = [
    NoRetention(),
    EWC(),
    OnlineEWC(),
    Rehearsal(capacity=20),
    LimitedRehearsal(capacity=6),
    PseudoRehearsal(),
    UntrainedGenerator(),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_a_method_passes_on_as_many_bytes_as_it_announces(method):
    memory = learn_two_tasks(method)
    passed_on = sum(tensor.numel() * tensor.element_size() for tensor in memory.retained.values())
    assert passed_on == method.num_bytes(SETTINGS, 6, 2)


def test_bytes_by_hand():
    network_bytes, item = 4 * PARAMETERS, 2 * 16 * 16
    assert NoRetention().num_bytes(SETTINGS, 6, 3) == 0
    assert EWC().num_bytes(SETTINGS, 6, 3) == 5 * network_bytes  # three Fisher diagonals, two anchors
    assert OnlineEWC().num_bytes(SETTINGS, 6, 3) == network_bytes
    assert Rehearsal(capacity=20).num_bytes(SETTINGS, 6, 3) == 20 * item
    assert CompressedRehearsal(capacity=6).num_bytes(SETTINGS, 6, 3) == 6 * item


def test_compressed_items_never_exceed_their_bytes():
    method = CompressedRehearsal(capacity=12, max_items=80)
    memory = learn_two_tasks(method)
    passed_on = sum(tensor.numel() * tensor.element_size() for tensor in memory.retained.values())
    assert 0 < passed_on <= method.num_bytes(SETTINGS, 6, 2)


def squares(count):
    """Dark screens with a bright square that is somewhere else on each: much alike, none equal."""
    states = torch.zeros(count, 2, 16, 16, dtype=torch.uint8)
    for number, state in enumerate(states):
        row, column = divmod(number, 14)
        state[:, row : row + 2, column : column + 2] = 200
    return states


def store_of(method, states, memory=None):
    remembered = method.remember(CONTEXT, memory, network(), Items(states))
    return LongTermMemory(AGENT, ("a", "b")[: len(memory.tasks) + 1 if memory else 1], remembered.retained)


def kinds(states):
    return {bytes(state.numpy()) for state in states}


def test_blocks_of_items_come_back_as_they_were():
    method = CompressedRehearsal(capacity=40, max_items=196, codec="lzma", block=16)
    memory = store_of(method, squares(150))
    assert int(memory.retained["block.0"]) == 16
    (stored,) = method.stored(CONTEXT, memory)
    assert len(stored) == method.num_items(memory) == 144  # nine whole blocks
    assert kinds(stored) <= kinds(squares(150))
    assert len(kinds(stored)) == 144


def test_later_tasks_drop_whole_blocks_and_the_bytes_hold():
    method = CompressedRehearsal(capacity=3, max_items=196, codec="lzma", block=8)
    first = store_of(method, squares(196))
    second = store_of(method, squares(196) // 2, first)
    passed_on = sum(tensor.numel() * tensor.element_size() for tensor in second.retained.values())
    assert passed_on <= method.num_bytes(SETTINGS, 6, 2)
    before, (kept, new) = method.stored(CONTEXT, first)[0], method.stored(CONTEXT, second)
    assert 0 < len(kept) < len(before)
    assert len(kept) % int(first.retained["block.0"]) == 0
    assert kinds(kept) < kinds(before)
    assert kinds(new) <= kinds(squares(196) // 2)


def test_more_items_fit_in_blocks():
    one, blocks = (
        store_of(CompressedRehearsal(capacity=4, max_items=196, codec="lzma", block=block), squares(196))
        for block in (1, 8)
    )
    assert CompressedRehearsal().num_items(blocks) > 1.3 * CompressedRehearsal().num_items(one)


def test_a_block_leaves_room_for_later_tasks():
    """Noise does not compress: a block of sixteen would fill the store of six raw items."""
    memory = store_of(CompressedRehearsal(capacity=6, max_items=80, codec="lzma", block=16), STATES.states)
    assert "block.0" not in memory.retained
    assert CompressedRehearsal().num_items(memory) > 0


def test_a_forged_block_is_refused():
    method = CompressedRehearsal(capacity=40, max_items=64, codec="lzma", block=16)
    memory = store_of(method, squares(64))
    memory.retained["block.0"].fill_(2**30)
    with pytest.raises(UserError, match="blocks of 1073741824 items"):
        method.stored(CONTEXT, memory)


@pytest.mark.parametrize("method", METHODS[1:], ids=lambda method: type(method).__name__)
def test_a_memory_of_another_method_lacks_something(method):
    assert method.missing_from(CONTEXT, learn_two_tasks(method)) is None
    missing = method.missing_from(CONTEXT, LongTermMemory(AGENT, ("a", "b")))
    assert missing in (
        "a generator",
        "stored items of every task",
        "a Fisher matrix of every task",
        "a running Fisher matrix",
    )


def test_an_untrained_generator_is_the_one_that_training_starts_from():
    trained, untrained = (method.remember(CONTEXT, None, network(), STATES) for method in METHODS[-2:])
    assert trained.retained.keys() == untrained.retained.keys()
    assert (len(untrained.curve), len(trained.curve)) == (0, 4)  # TINY: 8 steps, of which each call makes two
    nothing = replace(CONTEXT, settings=with_overrides(SETTINGS, {"gan.steps": 0}))
    started = PseudoRehearsal().remember(nothing, None, network(), STATES)
    for name, tensor in untrained.retained.items():
        assert torch.equal(started.retained[name], tensor)
        assert tensor.dtype == torch.float32


def test_a_short_term_generator_is_adopted_only_by_pseudo_rehearsal():
    generator = {"layers.0.weight": torch.ones(2)}
    assert PseudoRehearsal().adopt(generator).retained == {"generator.layers.0.weight": generator["layers.0.weight"]}
    assert Rehearsal().adopt(generator) is None


def test_what_a_raw_store_would_take_compressed():
    """A sample of equal items measures all of them exactly; of a few items all are measured."""
    agent = {"weight": torch.zeros(10)}  # 40 bytes
    plain, noise = torch.zeros(700, 2, 16, 16, dtype=torch.uint8), torch.randint(0, 255, (9, 2, 16, 16)).byte()
    memory = LongTermMemory(agent, ("a", "b"), {"items.0": plain, "items.1": noise})
    dark, noisy = LzmaCodec.fit(plain, 10**6), LzmaCodec.fit(noise, 10**6)
    items = [dark.compress(plain[0].numpy())] * 700 + [noisy.compress(state.numpy()) for state in noise]
    backgrounds = 2 * 512
    # Every item has an end offset of four bytes.
    assert Rehearsal().compressed_bytes(memory) == 40 + backgrounds + sum(len(item) + 4 for item in items)
    assert LimitedRehearsal().compressed_bytes(memory) == Rehearsal().compressed_bytes(memory)
    for method in (CompressedRehearsal(), PseudoRehearsal(), NoRetention(), EWC()):
        assert method.compressed_bytes(memory) is None


def test_a_compressed_memory_of_another_method_lacks_something():
    method = CompressedRehearsal(capacity=12, max_items=80)
    memory = learn_two_tasks(method)
    assert method.missing_from(CONTEXT, memory) is None
    for name in memory.retained:
        lacking = {other: tensor for other, tensor in memory.retained.items() if other != name}
        missing = method.missing_from(CONTEXT, LongTermMemory(AGENT, ("a", "b"), lacking))
        assert missing == "compressed items of every task", name


@pytest.mark.parametrize(
    "wrong", [None, torch.zeros(0, 2, 16, 16).byte(), torch.zeros(3, 2, 16, 16), torch.zeros(3, 1, 16, 16).byte()]
)
def test_stored_items_have_to_be_states_of_every_task(wrong):
    memory = learn_two_tasks(Rehearsal(capacity=20))
    retained = {**memory.retained, "items.1": wrong}
    if wrong is None:
        del retained["items.1"]
    missing = Rehearsal(capacity=20).missing_from(CONTEXT, LongTermMemory(AGENT, ("a", "b"), retained))
    assert missing == "stored items of every task"


def test_items_are_kept_while_they_and_their_ends_fit():
    items = [b"ab", b"c", b"", b"d"]  # with four bytes each: 6, 5, 4 and 5
    for room, kept in ((5, 0), (6, 1), (10, 1), (11, 2), (14, 2), (15, 3), (20, 4), (99, 4)):
        assert _fill(room, iter(items)) == items[:kept], room


def test_packed_items_are_found_by_their_ends():
    filled = _filled(3, 100, iter([b"ab", b"", b"cde"]), ZlibCodec())
    assert {name: tensor.tolist() for name, tensor in filled.items()} == {
        "packed.3": list(b"abcde"),
        "ends.3": [2, 2, 5],
    }
    assert filled["ends.3"].dtype == torch.int32
    memory = LongTermMemory({}, (), filled)
    assert _packed(memory, 3) == [b"ab", b"", b"cde"]
    background = LzmaCodec(torch.zeros(10, dtype=torch.uint8).numpy())
    # Ten bytes of background leave room for one item of two bytes and its end.
    assert _filled(0, 16, iter([b"ab", b""]), background)["ends.0"].tolist() == [2]


def test_a_store_is_measured_by_500_items_of_each_task(monkeypatch):
    compressed = []
    compress = LzmaCodec.compress

    def counted(codec, state):
        compressed.append(int(state[0, 0, 0]))
        return compress(codec, state)

    monkeypatch.setattr(LzmaCodec, "compress", counted)
    states = (torch.arange(600) % 251).to(torch.uint8)[:, None, None, None].expand(600, 2, 16, 16)
    Rehearsal().compressed_bytes(LongTermMemory({}, ("a",), {"items.0": states}))
    assert len(compressed) == 500
    assert (compressed[0], compressed[-1]) == (0, 599 % 251)  # from the first to the last


def test_each_task_has_an_equal_share_of_a_store():
    method, counts = Rehearsal(capacity=20), []
    memory = None
    for number in range(3):
        new = Items(torch.full((80, 2, 16, 16), number, dtype=torch.uint8))
        retained = method.remember(CONTEXT, memory, network(), new).retained
        memory = LongTermMemory(AGENT, tuple("abc"[: number + 1]), retained)
        counts.append([len(retained[f"items.{task}"]) for task in range(number + 1)])
        assert [int(retained[f"items.{task}"].unique()) for task in range(number + 1)] == list(range(number + 1))
    assert counts == [[20], [10, 10], [6, 6, 6]]
    assert method.num_items(memory) == 18


def test_only_a_tenth_of_a_tasks_share_may_be_background():
    # Items of 512 bytes. A share of 5120 bytes has room for a background of 512, one of 4608 has none.
    for capacity, size in ((10, 512), (9, 0)):
        method = CompressedRehearsal(capacity=capacity, codec="lzma")
        assert method.remember(CONTEXT, None, network(), STATES).retained["background.0"].numel() == size
    assert "background.0" not in CompressedRehearsal(capacity=9).remember(CONTEXT, None, network(), STATES).retained


def test_later_tasks_weigh_more_of_the_earlier_ones():
    alpha = [RecalledItems(CONTEXT, STATES, QValues(), before).alpha for before in (1, 2)]
    assert alpha == [SETTINGS.long_term.alpha_for(2), SETTINGS.long_term.alpha_for(3)]


@pytest.mark.parametrize("part", ["fisher.0", "fisher.1", "anchor.0"])
def test_ewc_needs_a_fisher_matrix_of_every_task_and_an_anchor_of_all_but_the_last(part):
    memory = learn_two_tasks(EWC())
    assert {".".join(name.split(".")[:2]) for name in memory.retained} == {"fisher.0", "fisher.1", "anchor.0"}
    lacking = {name: tensor for name, tensor in memory.retained.items() if not name.startswith(part)}
    missing = EWC().missing_from(CONTEXT, LongTermMemory(AGENT, ("a", "b"), lacking))
    assert missing == "a Fisher matrix of every task"
