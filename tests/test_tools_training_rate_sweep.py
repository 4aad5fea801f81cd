"""The learning-rate sweep: which rates it tries, and where it says that the loss leaves its best."""

from __future__ import annotations

import pytest

from memory.records import TrainingRecipe
from tools.training import rate_sweep

RECIPE = TrainingRecipe(learning_rate=1e-3, epochs=1)


def test_rates_rise_evenly_and_full_tuning_takes_a_tenth() -> None:
    rates = rate_sweep.rates(RECIPE, 24)
    assert (rates[0], rates[-1], len(rates)) == (pytest.approx(1e-5), pytest.approx(2e-2), 24)
    assert rates[1] / rates[0] == pytest.approx(rates[-1] / rates[-2])
    full = rate_sweep.rates(RECIPE.model_copy(update={"method": "full"}), 24)
    assert full == pytest.approx([rate / 10 for rate in rates])
    assert rate_sweep.rates(RECIPE, 0) == ()


def test_a_loss_that_leaves_its_best_is_found_where_it_does() -> None:
    rates = rate_sweep.rates(RECIPE, 24)
    losses = [3.0 - at / 10 for at in range(20)] + [9.0] * 4
    found = rate_sweep.read(rates, losses)
    assert found.diverges_at in rates[20:22]
    assert len(found.points) == 24


def test_noise_and_a_steady_fall_are_no_divergence() -> None:
    rates = rate_sweep.rates(RECIPE, 24)
    noisy = [2.0 + (0.8 if at % 3 else -0.8) for at in range(24)]
    assert rate_sweep.read(rates, noisy).diverges_at is None
    assert rate_sweep.read(rates, [3.0 - at / 10 for at in range(24)]).diverges_at is None


def test_a_loss_that_is_no_number_diverges_at_its_rate() -> None:
    rates = rate_sweep.rates(RECIPE, 24)
    assert rate_sweep.read(rates, [2.0] * 10).diverges_at == rates[10]
