# SPDX-License-Identifier: Apache-2.0
"""An outline of a C++ or CUDA source: its function bodies and its interfaces, by matching braces.

No compiler: enough to count lines, parameters and methods in code that is laid out by clang-format. A body at namespace or
class level belongs to a function; whatever stands inside it (lambdas, blocks, local classes) belongs to that function.
"""
import re
from dataclasses import dataclass, field

TOKEN = re.compile(
    r"""(?P<raw>(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)")
      | (?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<directive>^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)
      | (?P<text>"(?:[^"\\\n]|\\.)*")
      | (?P<word>[A-Za-z_]\w*)
      | (?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
      | (?P<char>'(?:[^'\\\n]|\\.)*')
      | (?P<symbol>::|->\*?|<<=|>>=|<=>|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%&|^]=|<<|\S)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE)

CONTROL = {"if", "for", "while", "switch", "catch", "return", "sizeof", "alignof", "decltype", "noexcept", "requires",
           "static_assert", "alignas", "throw", "operator", "explicit", "__launch_bounds__", "__attribute__", "__declspec"}
CLOSER = {"(": ")", "[": "]", "{": "}"}


@dataclass
class Token:
    kind: str
    text: str
    line: int


@dataclass
class Function:
    name: str
    line: int
    body_lines: int     # lines between the braces
    parameters: int
    space: str          # "host", "device" or "global"


@dataclass
class Interface:
    name: str
    line: int
    methods: int        # pure virtual ones


@dataclass
class Outline:
    functions: list = field(default_factory=list)
    interfaces: list = field(default_factory=list)


def tokens_of(source):
    tokens = []
    line = 1
    position = 0
    for match in TOKEN.finditer(source):
        line += source.count("\n", position, match.start())
        position = match.start()
        if match.lastgroup not in ("comment", "directive"):
            kind = "text" if match.group("raw") else match.lastgroup
            tokens.append(Token(kind, match.group(), line))
    return tokens


def partner(tokens, start):
    """Index of the bracket that closes tokens[start]; the last index where nothing does."""
    depth = 0
    opener = tokens[start].text
    closer = CLOSER[opener]
    for index in range(start, len(tokens)):
        if tokens[index].text == opener:
            depth += 1
        elif tokens[index].text == closer:
            depth -= 1
            if depth == 0:
                return index
    return len(tokens) - 1


def _skip_angles(tokens, start):
    """Index after the template argument list opened by `<` at start, or start + 1 where it is a comparison."""
    depth = 0
    index = start
    while index < len(tokens):
        text = tokens[index].text
        if text in CLOSER:
            index = partner(tokens, index)
        elif text == "<":
            depth += 1
        elif text in (">", ">>"):
            depth -= len(text)
            if depth <= 0:
                return index + 1
        elif text in (";", ")", "]", "}"):
            return start + 1
        index += 1
    return start + 1


def count_parameters(tokens):
    """Parameters in the tokens between the parentheses."""
    if not tokens or (len(tokens) == 1 and tokens[0].text == "void"):
        return 0
    count = 1
    index = 0
    while index < len(tokens):
        text = tokens[index].text
        if text in CLOSER:
            index = partner(tokens, index) + 1
        elif text == "<":
            index = _skip_angles(tokens, index)
        else:
            count += text == ","
            index += 1
    return count


def _parameter_list(head):
    """Index of the `(` that opens a function's parameters in the tokens before its body, or None."""
    index = 0
    while index < len(head):
        text = head[index].text
        if text == "template" and index + 1 < len(head) and head[index + 1].text == "<":
            index = _skip_angles(head, index + 1)
        elif text == "operator":
            index += 1
            if index + 1 < len(head) and head[index].text == "(" and head[index + 1].text == ")":
                index += 2
            while index < len(head) and head[index].text != "(":
                index += 1
            return index if index < len(head) else None
        elif text == "<":
            index = _skip_angles(head, index)
        elif text == "(":
            before = head[index - 1] if index else None
            if before and (before.kind == "word" and before.text not in CONTROL or before.text == ">"):
                return index
            index = partner(head, index) + 1
        elif text in ("[", "{"):
            index = partner(head, index) + 1
        elif text == "=":
            return None
        else:
            index += 1
    return None


def _name_before(head, index):
    if any(token.text == "operator" for token in head[:index]):
        start = next(i for i, token in enumerate(head) if token.text == "operator")
        return "operator" + "".join(token.text for token in head[start + 1:index])
    name = head[index - 1].text
    index -= 2
    if index >= 0 and head[index].text == "~":
        name = "~" + name
        index -= 1
    while index >= 1 and head[index].text == "::" and head[index - 1].kind == "word":
        name = head[index - 1].text + "::" + name
        index -= 2
    return name


def _space(head):
    words = {token.text for token in head}
    if "__global__" in words:
        return "global"
    return "device" if "__device__" in words else "host"


class _Parser:
    def __init__(self, tokens):
        self.tokens = tokens
        self.outline = Outline()

    def scope(self, index, end, class_name):
        """Reads declarations in [index, end); returns how many pure virtual functions stood there directly."""
        pure = 0
        head_start = index
        while index < end:
            text = self.tokens[index].text
            if text == ";":
                pure += self._is_pure(head_start, index)
                index += 1
                head_start = index
            elif text in ("(", "["):
                index = partner(self.tokens, index) + 1
            elif text == ":" and self._is_access_label(index, head_start):
                index += 1
                head_start = index
            elif text == "{":
                index, finished = self._brace(head_start, index, class_name)
                if finished:
                    head_start = index
            else:
                index += 1
        return pure

    def _is_pure(self, start, end):
        texts = [token.text for token in self.tokens[start:end]]
        return "virtual" in texts and texts[-2:] == ["=", "0"]

    def _is_access_label(self, index, head_start):
        return index == head_start + 1 and self.tokens[head_start].text in ("public", "private", "protected")

    def _brace(self, head_start, index, class_name):
        """Handles the brace at index; returns the index after what it opens and whether a declaration ended there."""
        head = self.tokens[head_start:index]
        close = partner(self.tokens, index)
        kind = self._kind(head)
        if kind == "namespace":
            self.scope(index + 1, close, None)
            return close + 1, True
        if kind == "class":
            name = self._class_name(head)
            pure = self.scope(index + 1, close, name)
            if pure:
                self.outline.interfaces.append(Interface(name, head[0].line, pure))
            return close + 1, False
        opening = _parameter_list(head)
        if opening is None or self._is_member_initializer(head, opening):
            return close + 1, False
        self._function(head, opening, index, close, class_name)
        return close + 1, True

    def _kind(self, head):
        texts = [token.text for token in head]
        if "namespace" in texts or texts[:1] == ["extern"] and len(texts) == 2:
            return "namespace"
        if "enum" in texts:
            return "other"
        index = 0
        while index < len(texts) and texts[index] == "template":
            index = _skip_angles(head, index + 1)
        if any(t in ("class", "struct", "union") for t in texts[index:index + 2]) and "=" not in texts[index:]:
            return "class" if _parameter_list(self._without_attributes(head[index:])) is None else "other"
        return "other"

    def _without_attributes(self, head):
        """The head of a class up to its template arguments or base clause, without alignas(...)."""
        kept = []
        index = 0
        while index < len(head) and head[index].text not in (":", "<"):
            if head[index].text == "alignas":
                index = partner(head, index + 1)
            else:
                kept.append(head[index])
            index += 1
        return kept

    def _class_name(self, head):
        texts = [token.text for token in head]
        start = max(i for i, t in enumerate(texts) if t in ("class", "struct", "union") and (i == 0 or texts[i - 1] not in ("<", ",")))
        words = [t.text for t in self._without_attributes(head[start + 1:]) if t.kind == "word" and t.text != "final"]
        return words[-1] if words else "(unnamed)"

    def _is_member_initializer(self, head, opening):
        """Whether the brace after `head` initialises a member in a constructor's list: `: a_{`."""
        close = partner(head, opening)
        rest = head[close + 1:]
        if not any(token.text == ":" for token in rest):
            return False
        last = head[-1]
        return last.kind == "word" and last.text not in ("noexcept", "const", "override", "final") or last.text == ">"

    def _function(self, head, opening, index, close, class_name):
        closing = partner(head, opening)
        name = _name_before(head, opening)
        if class_name and "::" not in name:
            name = class_name + "::" + name
        if head[opening - 1].text in ("TEST", "TEST_F", "TEST_P", "TYPED_TEST"):
            name = "".join(token.text for token in head[opening + 1:closing]).replace(",", ".")
        lines = self.tokens[close].line - self.tokens[index].line - 1
        parameters = count_parameters(head[opening + 1:closing])
        self.outline.functions.append(Function(name, head[0].line, max(lines, 0), parameters, _space(head)))


def outline(source):
    tokens = tokens_of(source)
    parser = _Parser(tokens)
    parser.scope(0, len(tokens), None)
    return parser.outline
