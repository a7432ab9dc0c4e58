"""Generic mutants of C functions: small changes selected by the kind of a token, never by its text.

    operator    < becomes <= and >=, == becomes !=, && becomes ||, + becomes -, ++ becomes --, ! is dropped, …
    constant    n becomes n + 1 and n - 1, true becomes false
    condition   if (x) becomes if (!(x))
    statement   a call, an assignment, break or continue is deleted
"""
import bisect
import dataclasses
import re

TOKEN = re.compile(r"""
    (?P<skip>/\*.*?\*/|//[^\n]*|^[ \t]*\#(?:\\\n|[^\n])*|\s+)
  | (?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
  | (?P<number>(?:0[xX][0-9a-fA-F]+|\d+)[uUlL]*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<op>->|\+\+|--|<<=|>>=|&&|\|\||[<>=!+\-*/%&|^]=|<<|>>|\.\.\.|.)
""", re.X | re.S | re.M)
SWAPS = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",),
         "&&": ("||",), "||": ("&&",), "+": ("-",), "-": ("+",), "*": ("/",), "/": ("*",), "%": ("*",), "&": ("|",),
         "|": ("&",), "+=": ("-=",), "-=": ("+=",), "|=": ("&=",), "&=": ("|=",), "++": ("--",), "--": ("++",),
         "<<": (">>",), ">>": ("<<",)}
# Statements that begin with one of these are not deleted: the result would not compile or would mean the same.
KEPT = {"return", "goto", "case", "default", "typedef", "struct", "enum", "union", "static", "const", "extern", "else",
        "do", "if", "for", "while", "switch", "sizeof", "va_end", "TFE_ASSERT"}


@dataclasses.dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class Mutant:
    file: str
    line: int
    start: int
    end: int
    new: str

    def apply(self, text):
        return text[:self.start] + self.new + text[self.end:]


def bodies(tokens):
    """Returns the index of the first and last token of each outermost pair of braces: functions, tables, types."""
    depth = first = 0
    for index, token in enumerate(tokens):
        if token.text == "{":
            first = index if depth == 0 else first
            depth += 1
        elif token.text == "}":
            depth -= 1
            if depth == 0:
                yield first, index


def matching(tokens, index):
    """Returns the index of the parenthesis that closes the one at index."""
    depth = 0
    while True:
        depth += (tokens[index].text == "(") - (tokens[index].text == ")")
        if depth == 0:
            return index
        index += 1


def statement_end(tokens, first, last):
    """Returns the index of the semicolon of the statement that begins at first if the statement can be deleted, else
    None."""
    if tokens[first].text in KEPT or tokens[first].kind != "name" and tokens[first].text not in ("*", "++", "--", "("):
        return None
    end = depth = 0
    for end in range(first, last):
        depth += (tokens[end].text in "({[") - (tokens[end].text in ")}]")
        if depth < 0:
            return None
        if depth == 0 and tokens[end].text == ";":
            break
    words = tokens[first:end]
    is_declaration = len(words) > 1 and words[0].kind == "name" and (words[1].kind == "name" or words[1].text == "*")
    does = any(word.text in ("(", "++", "--", "break", "continue") or word.text.endswith("=") for word in words)
    return end if does and not is_declaration else None


def mutants_of(file, text, lines=None):
    """Returns all mutants of a file's functions and tables; with lines, only mutants that contain one of these
    lines."""
    tokens = [Token(found.lastgroup, found[0], found.start(), found.end()) for found in TOKEN.finditer(text)
              if found.lastgroup != "skip"]
    newlines = [found.start() for found in re.finditer("\n", text)]
    mutants = []

    def line_of(offset):
        return bisect.bisect_left(newlines, offset) + 1

    def add(start, end, new):
        new += "\n" * (text[start:end].count("\n") - new.count("\n"))  # line numbers in assertions stay the same
        mutants.append(Mutant(file, line_of(start), start, end, new))

    for first, last in bodies(tokens):
        head = first
        while head > 0 and tokens[head - 1].text not in (";", "}"):
            head -= 1
        is_function = tokens[first - 1].text == ")"
        if not is_function and tokens[first - 1].text != "=":
            continue
        if lines is not None and not any(line_of(tokens[head].start) <= line <= line_of(tokens[last].start)
                                         for line in lines):
            continue
        for index in range(first, last):
            token = tokens[index]
            is_spaced = text[token.start - 1].isspace() and text[token.end].isspace()  # binary
            if token.kind == "op" and token.text in SWAPS and (is_spaced or token.text in ("++", "--")):
                for new in SWAPS[token.text]:
                    add(token.start, token.end, new)
            elif token.text == "!":
                add(token.start, token.end, "")
            elif token.kind == "number":
                digits = token.text.rstrip("uUlL")
                if re.fullmatch(r"0\d+", digits):
                    continue  # octal numbers are file modes
                for value in {int(digits, 0) + 1, max(int(digits, 0) - 1, 0)} - {int(digits, 0)}:
                    add(token.start, token.end, f"{value}{token.text[len(digits):]}")
            elif token.text in ("true", "false"):
                add(token.start, token.end, "false" if token.text == "true" else "true")
            elif token.text == "if" and tokens[index + 1].text == "(":
                close = matching(tokens, index + 1)
                inside = text[tokens[index + 1].end:tokens[close].start]
                add(tokens[index + 1].end, tokens[close].start, f"!({inside})")
            if is_function and index > first and tokens[index - 1].text in (";", "{", "}", ":"):
                end = statement_end(tokens, index, last)
                if end is not None:
                    add(token.start, tokens[end].end, ";")
    return mutants
