"""What models cost. A price of the person's own comes before this table, and no price is ever guessed."""

from __future__ import annotations

from memory.records import LOCAL, OPENAI_URL, Planning, Price

PRICES: dict[str, Price] = {
    "gpt-4.1": Price(prompt=2.00, answer=8.00),
    "gpt-4.1-mini": Price(prompt=0.40, answer=1.60),
    "gpt-4.1-nano": Price(prompt=0.10, answer=0.40),
    "gpt-4o": Price(prompt=2.50, answer=10.00),
    "gpt-4o-mini": Price(prompt=0.15, answer=0.60),
    "gpt-5": Price(prompt=1.25, answer=10.00),
    "gpt-5-mini": Price(prompt=0.25, answer=2.00),
    "gpt-5-nano": Price(prompt=0.05, answer=0.40),
    "gpt-5.1": Price(prompt=1.25, answer=10.00),
    "o3": Price(prompt=2.00, answer=8.00),
    "o4-mini": Price(prompt=1.10, answer=4.40),
}
"""OpenAI's list prices for its own server in March 2026. Names are matched whole: a newer model of a like name
has a price of its own."""
FREE = Price(prompt=0.0, answer=0.0)


def price_of(model: str, planning: Planning) -> Price | None:
    """The price of a model; None where it is not known, as on a server that is not OpenAI's."""
    if model == LOCAL:
        return FREE
    if model in planning.prices:
        return planning.prices[model]
    return PRICES.get(model) if planning.base_url == OPENAI_URL else None


def dollars(price: Price, prompt_tokens: int, answer_tokens: int) -> float:
    """What a call costs: tokens times price, prompt and answer apart."""
    return (prompt_tokens * price.prompt + answer_tokens * price.answer) / 1e6
