"""Fits and their intervals: against values of textbooks and closed forms."""

import numpy as np
import pytest

from mhasweep_analysis import fits


def test_a_line_has_the_slope_interval_of_the_textbook():
    # Anscombe's first set: slope 0.500 with standard error 0.1179, intercept 3.00 with 1.125, R^2 0.667, 9 degrees.
    x = [10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5]
    y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68]
    fit = fits.line(x, y)
    reach = 2.262157  # Student's 97.5 % quantile at 9 degrees
    assert fit.slope.value == pytest.approx(0.50009, abs=1e-5)
    assert fit.slope.high - fit.slope.value == pytest.approx(reach * 0.117906, rel=1e-5)
    assert fit.intercept.value == pytest.approx(3.00009, abs=1e-5)
    assert fit.intercept.value - fit.intercept.low == pytest.approx(reach * 1.124747, rel=1e-5)
    assert fit.r2 == pytest.approx(0.666542, abs=1e-6)
    assert fit.at(9) == pytest.approx(np.mean(y))


def test_the_band_of_a_line_is_narrowest_in_the_middle_and_its_intercept_at_zero():
    fit = fits.line([1, 2, 3, 4, 5], [1, 2.1, 2.9, 4.2, 4.9])
    low, high = fit.band([0, 3, 5])
    assert np.all(np.diff((high - low)[[1, 2, 0]]) > 0)
    assert (low[0], high[0]) == pytest.approx((fit.intercept.low, fit.intercept.high))


def test_exact_points_leave_an_interval_of_no_width_that_has_its_value():
    heads = np.arange(1, 9)
    fit = fits.line(heads, 7 * heads + 1)
    assert (fit.slope.contains(7), fit.slope.contains(7.001), fit.intercept.contains(1)) == (True, False, True)
    assert fit.r2 == pytest.approx(1)


def test_two_points_have_a_line_but_no_interval():
    fit = fits.line([1, 2], [3, 5])
    assert (fit.slope.value, fit.intercept.value) == (2, 1)
    assert np.isnan([fit.slope.low, fit.slope.high, fit.intercept.low]).all()
    assert fit.slope.contains(2) and not fit.slope.contains(2.1)


def test_missing_points_are_left_out_and_too_few_refused():
    assert fits.line([1, 2, 3, 4], [1, 2, np.nan, 4]).points == 3
    with pytest.raises(ValueError, match="two different x"):
        fits.line([1, 1], [1, 2])
    with pytest.raises(ValueError, match="no points"):
        fits.line([1.0, 2.0], [np.nan, np.nan])
    with pytest.raises(ValueError, match="3 x and 2 y"):
        fits.line([1, 2, 3], [1, 2])


def test_about_95_of_100_intervals_have_the_true_slope():
    rng = np.random.default_rng(1)
    x = np.repeat([1, 2, 4, 8], 3)
    hits = sum(fits.line(x, 2 * x + 1 + rng.normal(size=x.size)).slope.contains(2) for _ in range(2000))
    assert 0.93 < hits / 2000 < 0.97


def test_a_power_law_gives_back_its_exponent_and_factor():
    x = np.array([1, 4, 16, 64])
    fit = fits.power(x, 3 * x**-0.5)
    assert fit.exponent.value == pytest.approx(-0.5)
    assert fit.factor.value == pytest.approx(3)
    np.testing.assert_allclose(fit.at(x), 3 * x**-0.5)
    noisy = fits.power(x, 3 * x**-0.5 * np.exp([0.1, -0.1, 0.1, -0.1]))
    assert noisy.exponent.low < -0.5 < noisy.exponent.high and noisy.factor.low < 3 < noisy.factor.high
    with pytest.raises(ValueError, match="positive"):
        fits.power([1, 2], [0, 1])


def test_a_mean_has_students_interval_and_one_value_none():
    mean = fits.mean([1, 2, 3, 4])
    assert mean.value == 2.5
    assert mean.high - mean.value == pytest.approx(3.182446 * np.sqrt(5 / 3) / 2, rel=1e-6)
    assert np.isnan(fits.mean([7]).low)
    assert fits.mean([0.0, 1.0]).within(0, 1) == (0.5, 0, 1)


def test_a_difference_has_the_interval_of_the_scatter_of_all_its_groups():
    # 6 degrees of freedom, and (3 * 5/3 + 3 * 20/3) / 6 = 25/6; with a third group of two equal values 7, and 25/7.
    change = fits.difference([1, 2, 3, 4], [11, 12, 13, 14])
    assert (change.value, change.high) == (10, pytest.approx(10 + 2.446912 * np.sqrt(5 / 6)))
    first, second = [1, 2, 3, 4], [12, 14, 16, 18]
    assert fits.difference(first, second).high == pytest.approx(12.5 + 2.446912 * np.sqrt(25 / 6 / 2))
    scatter = fits.noise([first, second, [5, 5]])
    assert (scatter.deviation, scatter.freedom) == (pytest.approx(np.sqrt(25 / 7)), 7)
    assert fits.difference(first, second, scatter).high == pytest.approx(12.5 + 2.364624 * np.sqrt(25 / 7 / 2))
    assert fits.difference([1, 1], [2, 2]) == (1, 1, 1)
    assert np.isnan(fits.difference([1], [2]).low)


def test_a_share_has_wilsons_interval():
    share = fits.share(9, 10)
    assert (share.low, share.high) == (pytest.approx(0.5958, abs=1e-4), pytest.approx(0.9821, abs=1e-4))
    assert fits.share(10, 10).high == pytest.approx(1)
    assert np.isnan(fits.share(0, 0).value)
