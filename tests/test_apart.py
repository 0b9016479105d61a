"""Rows of one forward on a CPU: bit for bit what they are alone, however they are shared out; prepared products."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

import unmask
from unmask.models import linear
from unmask.models.apart import batch_states, end_to_end, is_small, padding_mask, row_by_row
from unmask.models.backbone import Backbone
from unmask.models.linear import Linear, prepare

LENGTHS = [7, 30, 19, 30]


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def rows(highest: int) -> Tensor:
    ids = torch.zeros(len(LENGTHS), max(LENGTHS), dtype=torch.long)
    rng = torch.Generator().manual_seed(0)
    for i, length in enumerate(LENGTHS):
        ids[i, :length] = torch.randint(0, highest, (length,), generator=rng)
    return ids


@pytest.mark.parametrize(("way", "count"), [(row_by_row, 1), (row_by_row, 2), (row_by_row, 3), (end_to_end, 1)])
def test_rows_are_bit_for_bit_what_they_are_alone(model: unmask.Model, threads, way, count: int) -> None:
    ids, net = rows(250), model.net
    with torch.inference_mode():
        alone = [net.states(ids[i : i + 1, :length], None, 2) for i, length in enumerate(LENGTHS)]
        threads(count)
        together = way(net, ids, LENGTHS, 2)
    assert torch.get_num_threads() == count
    assert together[0] is None and together[1] is None and len(together) == net.spec.layers + 1
    for i, length in enumerate(LENGTHS):
        assert all(torch.equal(a[i, :length], b[0]) for a, b in zip(together[2:], alone[i][2:], strict=True))


def test_the_embedded_model_goes_row_by_row_over_the_cores(threads) -> None:
    net = unmask.load("tiny", device="cpu").net
    ids = rows(1000)
    assert is_small(net)
    found = []
    for count in (1, 2):
        threads(count)
        with torch.inference_mode():
            found.append(batch_states(net, ids, LENGTHS, net.spec.layers)[-1])
    assert torch.equal(found[0], found[1])


def test_what_a_row_raises_is_raised(model: unmask.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(ids: Tensor, mask: Tensor | None = None, keep_from: int = 0) -> list[Tensor]:
        raise RuntimeError("a row's own")

    monkeypatch.setattr(model.net, "states", fail)
    with pytest.raises(RuntimeError, match="a row's own"):
        row_by_row(model.net, rows(250), LENGTHS, 0)


def test_padding_is_masked_only_where_there_is_some() -> None:
    ids = torch.zeros(2, 3, dtype=torch.long)
    assert padding_mask(ids, [3, 3]) is None
    mask = padding_mask(ids, [3, 1])
    assert mask is not None and mask.tolist() == [[True, True, True], [True, False, False]]


# --- prepared products ---------------------------------------------------------------------------------------


def layer(bias: bool) -> Linear:
    torch.manual_seed(0)
    return Linear(96, 40, bias=bias)


@pytest.fixture
def prepared() -> Linear:
    made = layer(bias=True)
    if not prepare(nn.Sequential(made)):
        pytest.skip("this build of torch cannot prepare products")
    return made


@pytest.mark.parametrize("bias", [False, True])
def test_prepared_products_are_the_plain_ones(bias: bool) -> None:
    made, plain = layer(bias), layer(bias)
    if not prepare(nn.Sequential(made)):
        pytest.skip("this build of torch cannot prepare products")
    for shape in [(96,), (1, 96), (0, 96), (5, 96), (2, 7, 96), (300, 96)]:
        x = torch.randn(shape)
        with torch.inference_mode():
            torch.testing.assert_close(made(x), plain(x), rtol=1e-5, atol=1e-5)
    wide = torch.randn(6, 192)[:, ::2]  # not contiguous
    with torch.inference_mode():
        torch.testing.assert_close(made(wide), plain(wide), rtol=1e-5, atol=1e-5)


def test_a_row_of_a_prepared_product_does_not_depend_on_the_others(prepared: Linear) -> None:
    x = torch.randn(70, 96)
    with torch.inference_mode():
        whole = prepared(x)
        assert all(torch.equal(prepared(x[:n]), whole[:n]) for n in range(1, 70))


def test_gradients_and_other_dtypes_go_the_plain_way(prepared: Linear) -> None:
    prepared(torch.randn(2, 96)).sum().backward()
    assert prepared.weight.grad is not None
    assert prepared.to(torch.float64).prepared is None
    with torch.inference_mode():
        assert prepared(torch.randn(2, 96, dtype=torch.float64)).dtype == torch.float64


def test_weights_that_changed_since_are_the_ones_that_count(prepared: Linear) -> None:
    x, changed = torch.randn(3, 96), layer(bias=True)
    with torch.no_grad():
        changed.weight.mul_(2)
    prepared.load_state_dict(changed.state_dict())
    with torch.inference_mode():
        torch.testing.assert_close(prepared(x), changed(x))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_prepared_layers_can_be_copied_and_pickled(prepared: Linear, copied: Callable[[Linear], Linear]) -> None:
    x, twin = torch.randn(3, 96), copied(prepared)
    with torch.inference_mode():
        torch.testing.assert_close(twin(x), prepared(x), rtol=1e-5, atol=1e-5)
    assert twin.prepared is None and prepared.prepared is not None


def test_what_cannot_be_prepared_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    half = nn.Sequential(layer(bias=False).to(torch.bfloat16))
    assert not prepare(half) and half[0].prepared is None
    assert not prepare(nn.Sequential())
    with monkeypatch.context() as patch:
        patch.setattr(linear, "LARGEST", 1000)
        assert not prepare(nn.Sequential(layer(bias=False)))

    def missing(self: Linear) -> None:
        raise RuntimeError("no such operator")

    def another(self: Linear) -> None:
        vars(self).update(prepared=torch.zeros(1).to_mkldnn(), version=self.weight._version)

    for broken in (missing, another):
        with monkeypatch.context() as patch:
            patch.setattr(Linear, "prepare", broken)
            made = layer(bias=False)
            assert not prepare(nn.Sequential(made))


def test_only_what_load_gives_is_prepared(tmp_path) -> None:
    from unmask.models import TINY, load_backbone

    net = load_backbone(TINY, device="cpu")
    assert isinstance(net, Backbone) and net.head.prepared is None
