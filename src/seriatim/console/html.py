"""Pages as HTML: everything that came with a message is text, whatever is in it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from seriatim.operations.tables.table import shown_value
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.moment import period_of
from seriatim.pipeline.text.plain import in_line, in_lines

#: A word and a sign for each state; a colour never tells it alone.
_SIGNS = {
    "faulted": "✖", "timed_out": "◷", "suspended": "‖", "waiting": "…", "locked": "▶", "ready": "●", "closed": "■",
    "on": "●", "off": "‖", "stopped": "‖", "started": "●", "running": "▶", "unenlisted": "■",
    "ok": "●", "down": "✖", "new": "○", "unpaired": "‖", "open": "●",
    "gathered": "○", "ended": "■", "cancelled": "✖", "changed": "≠",
}  # fmt: skip
#: A time in a text, as `shown_value` writes it.
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d")
#: The most characters of a cell.
_LONGEST = 300
#: The most characters of a folded text.
_LONGEST_FOLDED = 4_000


def environment(now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Environment:
    """The templates: those of pages in `pages/`, and what they share in `templates/`; `now` is the time from which ages are told."""
    found = Environment(
        loader=ChoiceLoader([PackageLoader("seriatim.console", one) for one in ("pages", "templates")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "folded": _folded, "cell": lambda value, longest=_LONGEST: _cell(value, now, longest),
        "timed": lambda text: _timed(text, now), "again": lambda text: _again_at(text, now),
        "ago": lambda at: _time(at, now), "age": lambda at: _time(at, now, is_age=True), "plain": in_line, "lines": in_lines,
        "counted": counted, "badge": _badge,
        "words": lambda text: str(text).replace("_", " "), "json": _json, "period": period_of, "number": shown_value,
    }  # fmt: skip
    return found


def _cell(value: object, now: Callable[[], datetime], longest: int = _LONGEST) -> Markup | str:
    if isinstance(value, datetime):
        return _time(value, now)
    text = in_line(shown_value(value))
    if len(text) <= longest:
        return escape(text)
    return Markup('<span title="{}">{}…</span>').format(text[:2000], text[:longest])


def _folded(value: object, longest: int = 110) -> Markup | str:
    """A text as a line; the whole of one that is long, or has several lines, is behind it."""
    text = shown_value(value).strip()
    line = in_line(text.partition("\n")[0])
    if len(text) <= longest and line == in_line(text):
        return escape(line)
    if len(line) > longest:
        line = line[:longest].rpartition(" ")[0] if " " in line[longest // 2 : longest] else line[:longest]
    whole = in_lines(text[:_LONGEST_FOLDED]) + ("…" if len(text) > _LONGEST_FOLDED else "")
    return Markup('<details class="fold"><summary>{} …</summary><div>{}</div></details>').format(line, whole)


def _time(at: datetime | None, now: Callable[[], datetime], *, is_age: bool = False) -> Markup | str:
    """A time, told from now; its title is the time itself. `is_age`: only how long ago it is, as behind "for"."""
    if at is None:
        return ""
    age, utc = (now() - at).total_seconds(), at.astimezone(UTC)
    return Markup('<time datetime="{}" data-age="{:.1f}"{} title="{}">{}</time>').format(
        utc.isoformat(timespec="milliseconds"),
        age,
        Markup(" data-plain") if is_age else "",
        f"{utc:%Y-%m-%d %H:%M:%S} UTC",
        period_of(age) if is_age else told_from_now(age),
    )


def _timed(text: str, now: Callable[[], datetime]) -> Markup:
    """A text of ours, in which times are told from now; what only looks like one stays as it is."""

    def told(found: re.Match[str]) -> Markup | str:
        try:
            return _time(datetime.fromisoformat(found[0]), now)
        except ValueError:
            return escape(found[0])

    line = in_line(text)
    pieces, at = [], 0
    for found in _TIME.finditer(line):
        pieces += [escape(line[at : found.start()]), told(found)]
        at = found.end()
    return Markup("").join([*pieces, line[at:]])


def _again_at(text: str, now: Callable[[], datetime]) -> Markup | str:
    """The text of a failed attempt, in which only the time of the next one is ours: its error may have any text."""
    told, mark, at = text.rpartition("; again ")
    return (
        Markup("{}{}{}").format(_cell(told, now), mark, _timed(at, now))
        if mark and _TIME.fullmatch(at)
        else _cell(text, now)
    )


def told_from_now(age: float) -> str:
    """A time by its age in seconds: "3 h ago", or "in 3 h" where that is negative."""
    return f"{period_of(age)} ago" if age >= 0 else f"in {period_of(-age)}"


def _badge(state: str, is_usual: bool = False) -> Markup:
    """A state with its sign and colour; `is_usual`: it is no warning here."""
    sign = "●" if is_usual else _SIGNS.get(str(state), "")
    return Markup('<span class="badge {}"><span aria-hidden="true">{}</span> {}</span>').format(
        "ok" if is_usual else str(state).replace(" ", "_"), sign, str(state).replace("_", " ")
    )


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def sparkline(values: Sequence[float], label: str) -> Markup:
    """A line of values over time, as SVG; `label` says the same in words."""
    width, height = 120, 24
    if len(values) < 2:
        return Markup("")
    top = max(*values, 1)
    step = (width - 2) / (len(values) - 1)
    points = " ".join(
        f"{1 + at * step:.1f},{height - 2 - (height - 4) * one / top:.1f}" for at, one in enumerate(values)
    )
    return Markup(
        '<svg class="spark" role="img" aria-label="{}" viewBox="0 0 {} {}" width="{}" height="{}">'
        '<title>{}</title><polyline points="{}"/></svg>'
    ).format(label, width, height, width, height, label, points)


def pretty(body: bytes, kind: str | None) -> Mapping[str, Any]:
    """A body to be shown: ``text`` or ``hex`` of its beginning, how it is shown, and whether it goes on."""
    most = 64 * 1024
    head = body[:most]
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if not (error.start > len(head) - 4 and len(body) > most):
            return {"how": "hex", "text": _hex(body[:4096]), "is_cut": len(body) > 4096}
        text = head[: error.start].decode()
    if len(body) <= most and (text.lstrip()[:1] in ("{", "[") or (kind or "").endswith("json")):
        try:
            return {"how": "json", "text": in_lines(_indented(text)), "is_cut": False}
        except (ValueError, RecursionError):
            pass
    return {"how": "text", "text": in_lines(text), "is_cut": len(body) > most}


def _indented(text: str) -> str:
    """JSON with indents; as it is where a name is there twice, or a number would change."""
    found = json.loads(text, parse_float=_Number, parse_int=_Number, object_pairs_hook=_distinct)
    return _again(found)


class _Number(str):
    __slots__ = ()


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a name is there twice")
    return dict(pairs)


def _again(value: object, indent: str = "") -> str:
    """JSON with indents, numbers as they were written."""
    inner = f"{indent}  "
    match value:
        case _Number():
            return str(value)
        case dict() if value:
            lines = [
                f"{inner}{json.dumps(name, ensure_ascii=False)}: {_again(one, inner)}" for name, one in value.items()
            ]
            return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
        case list() if value:
            return "[\n" + ",\n".join(f"{inner}{_again(one, inner)}" for one in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)


def _hex(body: bytes) -> str:
    """Lines of 16 bytes: their place, their digits, and what of them is text."""
    return "\n".join(
        f"{at:08x}  {body[at : at + 16].hex(' '):<47}  {''.join(chr(one) if 32 <= one < 127 else '.' for one in body[at : at + 16])}"
        for at in range(0, len(body), 16)
    )
