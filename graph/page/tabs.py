"""The tabs of the page, in their order. A new tab is a line here."""

from graph.page import chat, history, look_inside, new_task, run_view, try_it
from graph.page.shell import Tab

TABS = (
    Tab("Chat", chat.layout),
    Tab(run_view.NAME, run_view.layout),
    Tab(history.NAME, history.layout),
    Tab(look_inside.NAME, look_inside.layout),
    Tab("Try it", try_it.layout),
    Tab("New task", new_task.layout),
)
