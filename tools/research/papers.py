"""Papers of arXiv, found by words: title, number and the start of the abstract."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, ParseError, fromstring

from memory.errors import CatalogueError
from memory.records import Found
from tools.research.web import get, line

DOCTYPE = re.compile(r"<!\s*(DOCTYPE|ENTITY)", re.IGNORECASE)
ATOM = "{http://www.w3.org/2005/Atom}"
TITLE_CHARS, SUMMARY_CHARS, NUMBER_CHARS = 160, 500, 40


def search(address: str, words: str, most: int) -> list[Found]:
    """The papers that hold all the words, the most relevant first. Raises CatalogueError."""
    url = f"{address}/api/query"
    asked = " AND ".join(f"all:{word}" for word in re.findall(r"[\w-]+", words))
    body = get(url, {"search_query": asked, "start": "0", "max_results": str(most), "sortBy": "relevance"})
    feed = parsed(body, url)
    return [paper for entry in feed.findall(f"{ATOM}entry")[:most] if (paper := found(entry)) is not None]


def parsed(body: bytes, url: str) -> Element:
    """A feed as a tree. One that declares a document type is refused: entities come with it, which can swell without
    bound or name files of this machine. Raises CatalogueError."""
    try:
        text = body.decode("utf-8")
        if DOCTYPE.search(text):
            raise CatalogueError(f"{url} answered with a document type, which no feed has")
        feed = fromstring(text)
    except (ParseError, UnicodeDecodeError) as error:
        raise CatalogueError(f"{url} gave no list of papers") from error
    if feed.tag != f"{ATOM}feed":
        raise CatalogueError(f"{url} gave no list of papers")
    return feed


def found(entry: Element) -> Found | None:
    """An entry of the feed as ours; None for one that is no paper, such as an error message."""
    page = line(entry.findtext(f"{ATOM}id", ""), TITLE_CHARS)
    number = page.rpartition("/abs/")[2][:NUMBER_CHARS]
    if "/abs/" not in page or not number:
        return None
    return Found(
        shelf="paper",
        id=number,
        title=line(entry.findtext(f"{ATOM}title", ""), TITLE_CHARS),
        url=page,
        summary=line(entry.findtext(f"{ATOM}summary", ""), SUMMARY_CHARS),
    )
