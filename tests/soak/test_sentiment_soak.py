"""Hundreds of thousands of texts, and not one with another polarity than TextBlob's."""

import pytest

from tests.unit.test_sentiment_texts import differences, mutations, real_texts, reviews, tangles

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("seed", range(100, 110))
def test_two_hundred_thousand_generated_reviews(seed: int) -> None:
    assert differences(reviews(seed, 20_000)) == []


@pytest.mark.parametrize("seed", range(200, 210))
def test_a_hundred_thousand_mutations_of_real_reviews(seed: int) -> None:
    assert differences(mutations(seed, real_texts(), 10_000, length=400)) == []


@pytest.mark.parametrize("seed", range(300, 310))
def test_half_a_million_tangles(seed: int) -> None:
    assert differences(tangles(seed, 50_000)) == []
