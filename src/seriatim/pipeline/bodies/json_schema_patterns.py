r"""The regular expressions of JSON Schema: ECMA 262 in Unicode mode, computed by RE2.

Python's own engine tries one way after another, which can take for ever on a short text; RE2 takes time in proportion to
the text. Features that can't be matched in that time are refused: looking around, and referring back. RE2's syntax
differs in details, so a pattern is read here and rewritten: ``\s`` has more characters, ``.`` fewer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NoReturn

import re2

from seriatim.errors import UsageError, shown

_SPACES = r"\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}"
_NO_SPACES = (
    r"\x{0}-\x{8}\x{e}-\x{1f}!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}"
    r"\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}"
)
_SETS = {"d": r"\d", "D": r"\D", "w": r"\w", "W": r"\W", "s": _SPACES, "S": _NO_SPACES}
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_QUANTIFIER = re.compile(r"\{(\d+)(?:,(\d*))?\}", re.ASCII)
_CODE = re.compile(
    r"x([0-9a-fA-F]{2})|u\{([0-9a-fA-F]{1,6})\}|u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
    r"|u([0-9a-fA-F]{4})|c([A-Za-z])"
)
_PROPERTY = re.compile(r"[pP]\{(?:(?:Script|sc|Script_Extensions|scx|General_Category|gc)=)?(\w+)\}", re.ASCII)
_NAMED = re.compile(r"\(\?<([\w$]+)>")
#: RE2's own bound of a repetition.
_MOST_REPEATS = 1_000
_LONG_NAMES = {
    "Letter": "L", "Lowercase_Letter": "Ll", "Uppercase_Letter": "Lu", "Titlecase_Letter": "Lt",
    "Modifier_Letter": "Lm", "Other_Letter": "Lo", "Mark": "M", "Nonspacing_Mark": "Mn", "Spacing_Mark": "Mc",
    "Enclosing_Mark": "Me", "Number": "N", "Decimal_Number": "Nd", "digit": "Nd", "Letter_Number": "Nl",
    "Other_Number": "No", "Punctuation": "P", "punct": "P", "Symbol": "S", "Math_Symbol": "Sm",
    "Currency_Symbol": "Sc", "Separator": "Z", "Space_Separator": "Zs", "Other": "C", "Control": "Cc", "cntrl": "Cc",
}  # fmt: skip


@lru_cache(maxsize=4_096)
def matcher(pattern: str) -> Callable[[str], bool]:
    """A function that finds a pattern in a text, in time proportional to its length; half a surrogate pair never matches."""
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(_Pattern(pattern).written().encode(), options)
    except UnicodeEncodeError:
        raise _refused(pattern, "has half a surrogate pair") from None
    except re2.error as error:
        raise _refused(pattern, f"can't be used: {_said(error)}") from None
    search = compiled.search

    def found(text: str) -> bool:
        try:
            return search(text.encode()) is not None
        except UnicodeEncodeError:
            return False

    return found


def _refused(pattern: str, what: str, remedy: str = "") -> UsageError:
    return UsageError(f"the pattern {shown(pattern, 80)} {what}", remedy=remedy)


def _said(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    return "it is too large" if "too large" in text else text[:120]


class _Pattern:
    """Reads a pattern of ECMA 262 and rewrites it for RE2."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def written(self) -> str:
        out: list[str] = []
        while self._at < len(self._text):
            out.append(self._next())
        return "".join(out)

    def _next(self) -> str:  # noqa: PLR0911 - one return a kind of character
        character = self._text[self._at]
        match character:
            case "\\":
                return self._escape()
            case "[":
                return self._class()
            case "(":
                return self._group()
            case "{":
                return self._repeat()
        self._at += 1
        match character:
            case ".":
                return r"[^\n\r\x{2028}\x{2029}]"
            case "}" | "]":
                return f"\\{character}"
        return character

    def _refuse(self, what: str, remedy: str = "") -> NoReturn:
        raise _refused(self._text, what, remedy)

    def _group(self) -> str:
        rest = self._text[self._at : self._at + 4]
        if rest.startswith(("(?=", "(?!", "(?<=", "(?<!")):
            remedy = "say it with allOf and not, or with several patterns"
            self._refuse("looks around, which can take unlimited time", remedy)
        named = _NAMED.match(self._text, self._at)
        if named is not None:
            self._at = named.end()
            return "(?:"
        for begin in ("(?:", "(?i:"):
            if rest.startswith(begin):
                self._at += len(begin)
                return begin
        if rest.startswith("(?"):
            self._refuse(f"has {rest[:3]}, which is not ECMA 262", "flags are written as (?i:…)")
        self._at += 1
        return "(?:"

    def _repeat(self) -> str:
        found = _QUANTIFIER.match(self._text, self._at)
        if found is None:
            self._at += 1
            return r"\{"
        self._at = found.end()
        if any(number and (len(number) > 4 or int(number) > _MOST_REPEATS) for number in found.groups()):
            remedy = "bound the length with minLength and maxLength"
            self._refuse(f"repeats something more than {_MOST_REPEATS:,} times", remedy)
        return found[0]

    def _escape(self) -> str:
        character = self._text[self._at + 1 : self._at + 2]
        if character and character in "bB":
            self._at += 2
            return f"\\{character}"
        if character == "k" or (character.isascii() and character.isdigit() and character != "0"):
            self._refuse("refers back to a group, which can take unlimited time", "write out the possible texts")
        found = self._atom()
        return f"[{found}]" if isinstance(found, str) else _literal(found)

    def _atom(self) -> str | int:
        """Read a backslash and the following characters: a part of a class, or one code point."""
        character = self._text[self._at + 1 : self._at + 2]
        code = _CODE.match(self._text, self._at + 1)
        if code is not None:
            self._at = code.end()
            return self._code_of(code)
        if character and character in "pP":
            return self._property()
        self._at += 2
        if character in _SETS:
            return _SETS[character]
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character == "0" and not self._text[self._at : self._at + 1].isdigit():
            return 0
        if not character:
            self._refuse("ends with a backslash")
        if character.isascii() and character.isalnum():
            advice = {"A": "^ is the begin", "Z": "$ is the end", "z": "$ is the end"}.get(character, "")
            self._refuse(f"has \\{character}, which is not ECMA 262", advice)
        return ord(character)

    def _code_of(self, found: re.Match[str]) -> int:
        two, braced, high, low, four, control = found.groups()
        if control is not None:
            return ord(control) % 32
        if high is not None:
            return 0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00
        code = int(two or braced or four, 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            self._refuse(f"has \\{found[0]}, which is no code point")
        return code

    def _property(self) -> str:
        found = _PROPERTY.match(self._text, self._at + 1)
        if found is None:
            self._refuse("has \\p without a name in braces", "such as \\p{L} or \\p{Script=Greek}")
        self._at = found.end()
        return f"\\{found[0][0]}{{{_LONG_NAMES.get(found[1], found[1])}}}"

    def _class(self) -> str:
        self._at += 1
        negated = self._text.startswith("^", self._at)
        self._at += negated
        parts: list[str] = []
        while not self._text.startswith("]", self._at):
            parts.append(self._range())
        self._at += 1
        if not parts:
            return r"[\x{0}-\x{10ffff}]" if negated else r"[^\x{0}-\x{10ffff}]"
        return f"[{'^' if negated else ''}{''.join(parts)}]"

    def _range(self) -> str:
        low = self._member()
        if not self._text.startswith("-", self._at) or self._text.startswith("]", self._at + 1):
            return low if isinstance(low, str) else _literal(low)
        self._at += 1
        high = self._member()
        if isinstance(low, str) or isinstance(high, str):
            self._refuse("has a range from or to a whole class", "write the - last")
        if low > high:
            self._refuse("has a range whose end comes before its begin")
        return f"{_literal(low)}-{_literal(high)}"

    def _member(self) -> str | int:
        character = self._text[self._at : self._at + 1]
        if not character:
            self._refuse("has a [ that is not closed")
        if character != "\\":
            self._at += 1
            return ord(character)
        if self._text.startswith("b", self._at + 1):
            self._at += 2
            return 8
        return self._atom()


def _literal(code: int) -> str:
    return f"\\x{{{code:x}}}"
