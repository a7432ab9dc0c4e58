#!/usr/bin/env python3
"""Writes the generated parts of docs/python.md (from docstrings) and docs/job-file.md (from the JSON schema).

Usage: reference.py [--check]

A generated part is between the lines "<!-- generated: NAME -->" and "<!-- end -->"; the text around it is written by
hand. --check changes nothing, prints the documents that are out of date, and exits with 1 if there are any.
"""
import ast
import inspect
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "agent/python/tfe"


def definitions(path):
    """Returns the top-level functions and classes of a module, by name."""
    return {node.name: node for node in ast.parse(path.read_text()).body
            if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def imported(path):
    """Returns the names that a module imports from its siblings, under their public names: {name: (module, original
    name)}."""
    found = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            for alias in node.names:
                found[alias.asname or alias.name] = (node.module, alias.name)
    return found


def exported(path):
    """Returns the list __all__ of a module, without submodules."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return [name for name in ast.literal_eval(node.value) if not (PACKAGE / f"{name}.py").exists()]
    return [name for name in definitions(path) if not name.startswith("_")]


def resolve(module, name):
    """Returns the definition of a public name, which may be imported from another module of the package."""
    while True:
        path = PACKAGE / f"{module}.py"
        here = definitions(path)
        if name in here:
            return here[name]
        module, name = imported(path)[name]


def signature(node, prefix="", name=None):
    """Returns prefix + name(arguments) -> result, without self and without annotations of arguments."""
    arguments = node.args
    words = []
    positional = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for argument, default in zip(positional, defaults):
        if argument.arg != "self":
            words.append(argument.arg + (f"={ast.unparse(default)}" if default else ""))
    if arguments.vararg:
        words.append("*" + arguments.vararg.arg)
    elif arguments.kwonlyargs:
        words.append("*")
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        words.append(argument.arg + (f"={ast.unparse(default)}" if default else ""))
    if arguments.kwarg:
        words.append("**" + arguments.kwarg.arg)
    result = f" -> {ast.unparse(node.returns)}" if node.returns and (name or node.name) == node.name else ""
    return f"{prefix}{name or node.name}({', '.join(words)}){result}".replace('"', "")


def docstring(node):
    return inspect.cleandoc(ast.get_docstring(node, clean=False) or "")


def document_class(prefix, node):
    methods = [child for child in node.body if isinstance(child, ast.FunctionDef)]
    make = next((m for m in methods if m.name == "__init__"), None)
    title = signature(make, prefix, node.name) if make else f"{prefix}{node.name}"
    text = f"### `{title}`\n\n{docstring(node)}\n"
    if make and docstring(make):
        text += f"\n{docstring(make)}\n"
    for method in methods:
        is_property = any(getattr(d, "id", "") == "property" for d in method.decorator_list)
        if not method.name.startswith("_") and docstring(method):
            head = f".{method.name}" if is_property else signature(method, ".")
            text += f"\n#### `{head}`\n\n{docstring(method)}\n"
    return text


def python_reference():
    text = ""
    modules = ["__init__"] + sorted(p.stem for p in PACKAGE.glob("*.py") if not p.stem.startswith("_") and
                                    p.stem not in ("checkpoint", "distribute"))
    for module in modules:
        prefix = "tfe." if module == "__init__" else f"tfe.{module}."
        text += f"\n## Module `{prefix[:-1]}`\n" if module != "__init__" else "\n## Package `tfe`\n"
        for name in sorted(exported(PACKAGE / f"{module}.py"), key=str.lower):
            node = resolve(module, name)
            if isinstance(node, ast.ClassDef):
                text += "\n" + document_class(prefix, node)
            else:
                text += f"\n### `{signature(node, prefix, name)}`\n\n{docstring(node)}\n"
    return text


def value_text(schema):
    """Returns the values that a schema allows, as a short phrase."""
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            texts = [value_text(option) for option in schema[key] if option.get("type") != "null"]
            return " or ".join(dict.fromkeys(text for text in texts if text))
    kind = schema.get("type", "object")
    if kind == "integer":
        return f"{schema.get('minimum', 0)} to {schema['maximum']}" if "maximum" in schema else "a number"
    if kind == "object" and "properties" in schema:
        return "a map with `" + "`, `".join(schema["properties"]) + "`"
    return {"string": "text", "boolean": "true or false", "array": "a list", "object": "a map"}[kind]


def job_file_reference():
    schema = json.loads((ROOT / "docs/job-file.schema.json").read_text())
    text = "\n| field | values | meaning |\n|---|---|---|\n"
    for name, field in schema["properties"].items():
        values = value_text(field).replace("|", "\\|")
        text += f"| `{name}` | {values} | {field['description'].replace('|', chr(92) + '|')} |\n"
    return text + "\n"


DOCUMENTS = {"docs/python.md": ("python", python_reference), "docs/job-file.md": ("job-file", job_file_reference)}


def main():
    stale = []
    for name, (part, make) in DOCUMENTS.items():
        path = ROOT / name
        old = path.read_text()
        pattern = re.compile(rf"(<!-- generated: {part} -->\n).*?(<!-- end -->)", re.S)
        new = pattern.sub(lambda m: m[1] + make() + m[2], old)
        if new != old:
            stale.append(name)
            if sys.argv[1:] != ["--check"]:
                path.write_text(new)
    if sys.argv[1:] == ["--check"] and stale:
        print(f"out of date: {', '.join(stale)} (run scripts/reference.py)")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
