"""Parse YAML into the tree of a document, with the parser that keeps places; all faults go to its `Problems`."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, StreamMark, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from seriatim.pipeline.text.document import Items, Language, Place, Problems, Scalar, Table, Tree

# Reading takes a second for some thousand nodes.
_MOST_NODES = 200_000
_DEEPEST = 32
# A number of more bits has no meaning in a file, and Python doesn't write out very long ones.
_MOST_BITS = 256

_REFERENCE = re.compile(r"\$\$(?=\{)|\$\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# Words of the parser's errors, and those for people.
_WORDS = {
    "<document start>": "the beginning of a document",
    "<scalar>": "text",
    "<stream end>": "the end of the file",
    "<block end>": "the end of a block",
    "<block mapping start>": "a mapping",
    "<block sequence start>": "a list",
    "the node content": "a value",
    "found '?'": "found a key",
    "but found another document": "it has a second document",
}
_WORD = re.compile("|".join(map(re.escape, _WORDS)))


def parsed(text: str, problems: Problems, environment: Mapping[str, str], language: Language) -> Table | None:
    """Return the mapping in a YAML text; None if it can't be read."""
    try:
        tree = _parse(text, problems, environment, language)
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problems.add(Place(line), f"the character #x{ord(text[error.position]):04x} is not allowed in YAML")
    except MarkedYAMLError as error:
        problems.add(_mark(error), f"this is not YAML: {_reason(error)}", _advice(error, text, language))
    except YAMLError as error:
        problems.add(None, f"this is not YAML: {error}")
    else:
        if isinstance(tree, Table):
            return tree
        if tree is not None:
            problems.add(tree.place, f"a {language.name} is a mapping ({language.outline})")
    return None


def _parse(text: str, problems: Problems, environment: Mapping[str, str], language: Language) -> Tree | None:
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = _Composer
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an anchor may be used again; it says nothing about the content
        root = yaml.compose(text)
        if root is None:
            problems.add(None, "the file is empty", f"`seriatim docs {language.page}` has an example")
            return None
        return _Builder(yaml, problems, environment).tree(root)


def _mark(error: MarkedYAMLError) -> Place:
    mark = error.problem_mark or error.context_mark
    return Place(mark.line + 1, mark.column + 1) if mark else Place()


def _reason(error: MarkedYAMLError) -> str:
    reason = " ".join(str(error.problem or error.context or error).split())
    reason = re.sub(r"\('([^']*)',\)", r"'\1'", reason)  # a token as a tuple
    return _WORD.sub(lambda found: _WORDS[found[0]], re.sub(r"'(<[a-z ]+>)'", r"\1", reason))


def _advice(error: MarkedYAMLError, text: str, language: Language) -> str:
    if error.problem_mark is not None and text[max(0, error.problem_mark.index - 1) :].startswith("${"):
        return 'inside { } put it in quotes: {path: "${NAME}"}'
    advice = {
        "'\\t'": "YAML is indented with spaces, not with tabs",
        "mapping values are not allowed": "put text that contains ': ' in quotes, and check the indentation",
        _WORDS["but found another document"]: "a file is one document",
        _WORDS["<document start>"]: f"a {language.name} is a mapping ({language.outline})",
        _WORDS["<block end>"]: "check the indentation and the quotes",
    }
    reason = _reason(error)
    return next((advice[words] for words in advice if words in reason), "")


class _Composer(Composer):
    """ruamel's composer, which stops if a file has too many nodes or is nested too deeply, before it is read as a whole."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._nodes = self._nesting = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Like ruamel's method, which recurses into a node."""
        self._nodes += 1
        _check_size(self._nodes, self._nesting, self.parser.peek_event().start_mark)
        self._nesting += 1
        node = super().compose_node(parent, index)
        self._nesting -= 1
        return node


def _check_size(nodes: int, nesting: int, mark: StreamMark) -> None:
    if nesting > _DEEPEST:
        raise MarkedYAMLError(problem=f"it is nested more than {_DEEPEST} levels deep", problem_mark=mark)
    if nodes > _MOST_NODES:
        raise MarkedYAMLError(
            problem=f"it has more than {_MOST_NODES:,} keys and values, or stands for so many", problem_mark=mark
        )


class _Builder:
    """Turns ruamel's nodes into a tree; because of aliases the tree may have more nodes than the file, and even contain itself."""

    def __init__(self, yaml: YAML, problems: Problems, environment: Mapping[str, str]) -> None:
        self._yaml = yaml
        self._problems = problems
        self._environment = environment
        self._nodes = 0

    def tree(self, node: Node, depth: int = 0) -> Tree | None:
        place = _place(node)
        self._nodes += 1
        _check_size(self._nodes, depth, node.start_mark)
        if isinstance(node, MappingNode):
            return self._table(node, place, depth)
        if isinstance(node, SequenceNode):
            items = (self.tree(item, depth + 1) for item in node.value)
            return Items(place, tuple(item for item in items if item is not None))
        if isinstance(node, ScalarNode):
            return self._scalar(node, place)
        raise YAMLError("it has something that is no mapping, list or value")

    def _table(self, node: MappingNode, place: Place, depth: int) -> Table:
        entries: dict[str, Tree] = {}
        keys: dict[str, Place] = {}
        for key_node, value_node in node.value:
            key_place = _place(key_node)
            if not isinstance(key_node, ScalarNode):
                self._problems.add(key_place, "a key must be text")
                continue
            key = key_node.value
            if key in keys:
                self._problems.add(key_place, f"{key!r} is given twice", f"it stands in line {keys[key].line} already")
                continue
            keys[key] = key_place
            value = self.tree(value_node, depth + 1)
            if value is not None:
                entries[key] = value
        return Table(place, entries, keys)

    def _scalar(self, node: ScalarNode, place: Place) -> Scalar | None:
        tag = str(node.tag or "")
        if tag.startswith("!"):
            self._problems.add(place, f"the tag {tag} is not known", "write plain values")
            return None
        value = node.value
        if tag.endswith((":int", ":float", ":bool", ":null")):
            value = self._constructed(node, place)
        elif "${" in value:
            value, known = self._resolved(value, place)
            return Scalar(place, value, node.value, unknown=not known)
        return Scalar(place, value, node.value)

    def _constructed(self, node: ScalarNode, place: Place) -> int | float | bool | str | None:
        try:
            value: int | float | bool | None = self._yaml.constructor.construct_object(node)
        except (ValueError, KeyError):
            self._problems.add(place, f"{node.value!r} is not what its tag says")
            return str(node.value)
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            self._problems.add(place, f"{node.value!r} is too large a number")
            return str(node.value)
        return value

    def _resolved(self, text: str, place: Place) -> tuple[str, bool]:
        known = True

        def value_of(match: re.Match[str]) -> str:
            nonlocal known
            name = match[1]
            if name is None:  # $${ stands for ${
                return "$"
            if name in self._environment and _NAME.fullmatch(name):
                self._problems.conceal(self._environment[name], match[0])
                return self._environment[name]
            known = False
            if _NAME.fullmatch(name):
                self._problems.unset(place, name)
            else:
                self._problems.add(
                    place, f"{match[0]!r} doesn't name an environment variable", "write $${ for a plain ${"
                )
            return match[0]

        return _REFERENCE.sub(value_of, text), known


def _place(node: Node) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)
