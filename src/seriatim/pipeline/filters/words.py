"""The tokens of a filter, and the errors that name the place of a forbidden one.

sqlglot gets only words that a filter may have; names are passed on as numbers, so that no name is taken for a keyword.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from seriatim.errors import ColumnError, FilterError
from seriatim.kernel.filters.filter import Type
from seriatim.pipeline.text.section import likely

#: The parts of a filter, for people.
ALLOWED = (
    "a filter has = <> < <= > >=, IN (…), BETWEEN, LIKE, IS [NOT] NULL, AND, OR, NOT, + - * / %, & "
    "and constants such as 'text', 12, 1.5, TRUE, NULL, TIMESTAMP '2026-01-31 12:00:00'"
)

#: The deepest nesting of a filter by operators that follow each other.
DEEPEST_CHAIN = 72

_LONGEST = 100_000
# sqlglot calls itself about thirty times for every pair of parentheses.
_DEEPEST = 24

_KEYWORDS = frozenset(
    ["AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TIMESTAMP", "TRUE"]
)
_SIGNS = frozenset(["(", ")", ",", "=", "<>", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&"])
#: The words and signs of other languages, with those of a filter.
_MEANT = {
    "==": "=", "===": "=", "&&": "AND", "||": "OR", "!": "NOT", "^": "AND or OR", "<=>": "=", "~": "LIKE",
    "none": "NULL, as in x IS NULL", "nil": "NULL, as in x IS NULL", "undefined": "NULL, as in x IS NULL",
}  # fmt: skip
_WORD = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


@dataclass(frozen=True, slots=True)
class FilterText:
    """A filter's text, the names that it may have, and errors with places in it; the fields are the arguments of `parsed`. `anything`: it
    may name anything, because the properties aren't known yet.
    """

    text: str
    types: Mapping[str, Type]
    where: str
    unfit: Mapping[str, str]
    anything: bool = False

    def error(self, at: int, what: str, remedy: str = "") -> FilterError:
        return FilterError(what, where=self._place_of(at), remedy=remedy)

    def _place_of(self, at: int) -> str:
        before = self.text[:at]
        place = f"{before.count(chr(10)) + 1}:{at - before.rfind(chr(10))}"
        return f"{self.where}:{place}" if self.where else place

    def undeclared(self, token: Token, *, quoted: bool) -> FilterError | ColumnError:
        name, advice = token.text[:128], likely(token.text, self.types)
        if name in self.unfit:
            what = f"a filter can't look at {name!r}, which is {self.unfit[name][:80]}"
            return ColumnError(what, where=self._place_of(token.start), remedy="promote the value as a property")
        meant = advice.startswith("did you mean")
        if not quoted and not meant and name.casefold() in _MEANT:
            return self.error(token.start, f"{name} is not part of a filter", f"write {_MEANT[name.casefold()]}")
        if quoted and name.casefold() not in map(str.casefold, self.types):
            advice = f"text is written in single quotes: '{name[:40]}'"
        elif not meant and token.token_type != TokenType.VAR:
            return self.error(token.start, f"{name} is neither a property nor part of a filter", ALLOWED)
        elif not meant:
            advice = f"there are {', '.join(sorted(self.types)[:20])}" if self.types else "there are none"
        if not quoted and self.text[: token.start].rstrip().endswith(("=", "<>")):  # it may be meant as text
            advice = f"text is written in single quotes: '{name[:40]}'; otherwise: {advice}"
        return self.error(token.start, f"there is no property {name!r}", advice)

    def too_deep(self, at: int) -> FilterError:
        remedy = f"at most {_DEEPEST} levels of parentheses, and {DEEPEST_CHAIN} of operators"
        return self.error(at, "the filter is nested too deeply", remedy)


class Words:
    """The words of a filter's text for sqlglot; `names` maps the numbers in it to names."""

    def __init__(self, written: FilterText) -> None:
        self._filter = written
        if len(written.text) > _LONGEST:
            raise written.error(0, f"the filter has {len(written.text):,} characters", f"at most {_LONGEST:,}")
        self.names: list[str] = []
        self.tokens: list[Token] = []
        try:
            found = Tokenizer().tokenize(written.text)
        except TokenError:
            raise self._unclosed() from None
        self._check_nesting(found)
        self._take(found)

    def unexpected(self, error: ParseError) -> FilterError:
        told = error.errors[0] if error.errors else {}
        at = next((t for t in self.tokens if (t.line, t.col) == (told.get("line"), told.get("col"))), None)
        # A word that sqlglot misses is missing behind the word that it names.
        if at is None or (at is self.tokens[-1] and not str(told.get("description")).startswith("Invalid")):
            return self._filter.error(len(self._filter.text.rstrip()), "the filter ends too early", ALLOWED)
        return self.not_expected(at.start)

    def not_expected(self, start: int) -> FilterError:
        """Return the error for a misplaced word, which begins at `start`."""
        end = next((token.end for token in self.tokens if token.start == start), start)
        written = self._filter.text[start : end + 1]
        return self._filter.error(start, f"{written[:40]!r} is not expected here", ALLOWED)

    def _unclosed(self) -> FilterError:
        rest = _QUOTED.sub(lambda found: "x" * len(found[0]), self._filter.text)
        at = min((place for place in (rest.find("'"), rest.find('"'), rest.find("/*")) if place >= 0), default=0)
        return self._filter.error(at, "a quote is not closed", "a quote within text is written twice: 'it''s'")

    def _check_nesting(self, found: Sequence[Token]) -> None:
        """Check the nesting before the parser runs, which recurses for every level."""
        depth = run = 0
        for token in found:
            word = token.text.upper()
            run = run + 1 if token.token_type != TokenType.STRING and word in ("NOT", "-", "(") else 0
            if token.token_type == TokenType.L_PAREN:
                depth += 1
            elif token.token_type == TokenType.R_PAREN:
                depth -= 1
            if max(depth, run) > _DEEPEST:
                raise self._filter.too_deep(token.start)

    def _take(self, found: Sequence[Token]) -> None:
        position = 0
        while position < len(found):
            token, following = found[position], found[position + 1] if position + 1 < len(found) else None
            position += 1
            if token.comments:
                raise self._filter.error(token.start, "a filter has no comments", ALLOWED)
            if following is not None and self._begins_number(token, following):
                digits = f".{following.text}"
                token = Token(TokenType.NUMBER, digits, following.line, following.col, token.start, following.end)
                position += 1
            self._take_one(token, following)

    def _begins_number(self, token: Token, following: Token) -> bool:
        """Return whether a point begins a number like ``.5``, and doesn't follow a name."""
        if token.text != "." or following.token_type != TokenType.NUMBER or following.start != token.end + 1:
            return False
        before = self.tokens[-1] if self.tokens else None
        return before is None or before.end + 1 < token.start or before.text in _SIGNS

    def _take_one(self, token: Token, following: Token | None) -> None:
        kind, text = token.token_type, token.text
        written = self._filter.text[token.start : token.end + 1]
        if kind == TokenType.STRING and written.startswith("'"):
            self.tokens.append(token)
        elif kind == TokenType.NUMBER:
            glued = following is not None and following.start == token.end + 1 and _WORD.fullmatch(following.text)
            if glued or not _NUMBER.fullmatch(text):
                raise self._filter.error(token.start, f"{text[:40]!r} is not a number", "12, 1.5 or 1e3")
            self.tokens.append(token)
        elif kind == TokenType.IDENTIFIER and text:
            self._name(token, quoted=True)
        elif text == written and _WORD.fullmatch(text):
            self._word(token, following)
        elif text == written and text in _SIGNS:
            self.tokens.append(token)
        else:
            remedy = f"write {_MEANT[written]}" if written in _MEANT else ALLOWED
            raise self._filter.error(token.start, f"{written[:40]!r} is not part of a filter", remedy)

    def _word(self, token: Token, following: Token | None) -> None:
        upper, then = token.text.upper(), following.token_type if following else None
        if upper in _KEYWORDS and (upper != "TIMESTAMP" or then == TokenType.STRING):
            self.tokens.append(token)
            return
        if then == TokenType.L_PAREN and token.text not in self._filter.types:
            raise self._filter.error(token.start, f"a filter can't call {token.text}", ALLOWED)
        if then == TokenType.STRING:
            advice = "write TIMESTAMP '2026-01-31'" if upper in ("DATE", "DATETIME", "TIMESTAMPTZ") else ALLOWED
            raise self._filter.error(token.start, f"{token.text} '…' is not a constant", advice)
        self._name(token, quoted=False)

    def _name(self, token: Token, *, quoted: bool) -> None:
        if token.text not in self._filter.types and not self._filter.anything:
            raise self._filter.undeclared(token, quoted=quoted)
        hidden = Token(TokenType.IDENTIFIER, str(len(self.names)), token.line, token.col, token.start, token.end)
        self.names.append(token.text)
        self.tokens.append(hidden)
