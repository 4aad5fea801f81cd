"""The tabs of the page, in their order. A new tab is a line here."""

from graph.page import chat, run_view
from graph.page.shell import Tab

TABS = (
    Tab("Chat", chat.layout),
    Tab("Run", run_view.layout),
)
