"""Calendar arithmetic: today's date and weekday are told; which weekday is it some days earlier or later? Seven
answers.

Only the library's `weekday_offset` task, at most 14 days away: a date of 2022, an offset and a phrasing, about
260,000 distinct questions; 6,000 draws repeat 69. Questions of different splits may ask for the same weekday and
offset on another date. The library's `weekday_of_date` is left out: it asks for dates of one year only, so that
splits share their 365 dates, and the model scored no better on it than one weekday always given.
"""

from tools.benchmarks.reasoning_gym_items import Puzzle, closed, make

ANSWERS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

CALENDAR_ARITHMETIC = make(
    "calendar_arithmetic",
    "Which weekday is it up to 14 days before or after a date? (a weekday)",
    Puzzle("calendar_arithmetic", {"tasks": ["weekday_offset"], "offset_upper_bound": 14}, columns=("offset_days",)),
    closed(ANSWERS),
    max_new_tokens=8,
    answers=ANSWERS,
)
