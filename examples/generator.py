"""Writes the data of the examples: made up by rule, and the same at every call.

python examples/generator.py
"""

from __future__ import annotations

import csv
import itertools
import json
import random
from pathlib import Path

HERE = Path(__file__).parent

OPENINGS = (
    "Hello,",
    "Hi there,",
    "Dear team,",
    "Good morning,",
    "Hey,",
    "Please help:",
    "Once again:",
    "To whom it may concern,",
)
CLOSINGS = (
    "Thanks!",
    "Best, Ida",
    "Please answer soon.",
    "Regards, Tom",
    "Cheers",
    "What now?",
    "- Rosa",
    "Thank you, Lee",
)
PROBLEMS = {
    "billing": (
        "I was charged twice this month",
        "the invoice shows a wrong amount",
        "my refund has not reached my bank",
        "your receipt lacks the tax number",
        "the discount is missing on the bill",
        "my card was debited after I cancelled",
    ),
    "delivery": (
        "my parcel is three days late",
        "the courier left the box at a neighbour's",
        "tracking has not moved since Monday",
        "half of the order never arrived",
        "the driver could not find my street",
        "the package was shipped to my old address",
    ),
    "returns": (
        "I want to send the shoes back",
        "how long may I exchange a lamp",
        "the jacket is too small, can I swap it",
        "where is the return label",
        "I changed my mind about the chair",
        "the gift is a duplicate, will you take it back",
    ),
    "technical": (
        "the app crashes when I open it",
        "the page stays blank on my phone",
        "the update fails with error {code}",
        "your site is very slow tonight",
        "the search button does nothing",
        "notifications stopped after the update",
    ),
    "account": (
        "I cannot log in any more",
        "please change my user name",
        "the password mail never comes",
        "how do I delete my profile",
        "my e-mail address has changed",
        "someone else signed in as me",
    ),
}  # fmt: skip
MISSPELT = {"billing": "Billing", "technical": "technical "}

GOODS = ("pens", "mugs", "lamps", "chairs", "towels", "candles", "notebooks", "baskets", "cushions", "vases")
COLOURS = ("red", "blue", "green", "black", "white", "yellow")
CITIES = ("Lyon", "Porto", "Graz", "Turku", "Ghent", "Cork", "Bergen", "Split", "Brno", "Malaga")
ORDERS = (
    "Please send {count} {colour} {goods} to our shop in {city}.",
    "We need {goods} again: {count} pieces, {colour}, for {city}.",
    "{city} is out of stock. Could you ship {count} {goods}, all in {colour}?",
    "Order from {city}: {colour} {goods}, {count} of them, as last time.",
    "Could the {city} branch get {count} {goods}? {colour} ones, please.",
)

NAMES = ("Ana", "Bo", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "June", "Kofi", "Lena")
FRUIT = ("apples", "pears", "plums", "figs", "limes", "kiwis", "mangos", "melons")


def tickets(rows: int = 300) -> list[dict[str, object]]:
    """Tickets with their category; a few labels in a second spelling, one row twice and one empty, as real data has
    them."""
    draw = random.Random(1)
    made = []
    for category, problems in PROBLEMS.items():
        every = list(itertools.product(OPENINGS, problems, CLOSINGS))
        for opening, problem, closing in draw.sample(every, rows // len(PROBLEMS)):
            text = f"{opening} {problem.format(code=draw.randint(100, 999))}. {closing}"
            made.append({"text": text, "category": category})
    draw.shuffle(made)
    for row in made[: rows // 20]:
        row["category"] = MISSPELT.get(str(row["category"]), row["category"])
    made[40] = dict(made[10])
    made[70] = {"text": "", "category": "billing"}
    return made


def orders(rows: int = 300) -> list[dict[str, object]]:
    """Orders in words, and the same as JSON, as chats with a system message."""
    draw = random.Random(2)
    every = list(itertools.product(ORDERS, range(2, 60), COLOURS, GOODS, CITIES))
    made = []
    for form, count, colour, goods, city in draw.sample(every, rows):
        text = form.format(count=count, colour=colour, goods=goods, city=city)
        fields = {"goods": goods, "colour": colour, "count": count, "city": city}
        system = "Answer with JSON that has the keys goods, colour, count and city."
        turns = [("system", system), ("user", text[0].upper() + text[1:]), ("assistant", json.dumps(fields))]
        made.append({"messages": [{"role": role, "content": content} for role, content in turns]})
    return made


def shopping(stories: int = 110) -> list[dict[str, object]]:
    """Short stories with three questions each: a story's questions belong together."""
    draw = random.Random(3)
    made = []
    for number in range(stories):
        name, fruit = draw.choice(NAMES), draw.choice(FRUIT)
        count, price, eaten = draw.randint(3, 12), draw.randint(2, 9), draw.randint(1, 2)
        story = f"{name} buys {count} {fruit} for {price} euros each and eats {eaten}."
        questions = {
            f"How many {fruit} are left?": count - eaten,
            f"How many euros does {name} pay?": count * price,
            f"How many euros would {name} pay for one more?": (count + 1) * price,
        }
        for question, answer in questions.items():
            made.append({"story": number + 1, "text": story, "question": question, "answer": answer})
    return made


def write(folder: Path) -> None:
    """The three data files."""
    with (folder / "tickets.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, ["text", "category"], lineterminator="\n")
        table.writeheader()
        table.writerows(tickets())
    for name, rows in (("orders", orders()), ("shopping", shopping())):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(HERE)
