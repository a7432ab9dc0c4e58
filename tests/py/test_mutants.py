"""scripts/lib/mutants.py: which changes it makes to a C source, and what it leaves unchanged."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/lib"))
import mutants  # noqa: E402

SOURCE = r"""
#define LIMIT 3
/* a + b */
static int f(int a, char *b)
{
    int n = a < 2 ? a : 0;
    if (!b || n == LIMIT) {
        g("1 + 1", a + 1);
        return -1;
    }
    n++;
    return n;
}

struct s {
    int x[4];
};

static const int table[] = {7};
"""


def changed_lines(lines=None):
    found = {}
    for mutant in mutants.mutants_of("f.c", SOURCE, lines):
        new = mutant.apply(SOURCE)
        assert new.count("\n") == SOURCE.count("\n")  # line numbers in assertions stay the same
        found.setdefault(mutant.line, set()).add(new.splitlines()[mutant.line - 1].strip())
    return found


def test_operators_constants_conditions_and_statements_are_changed():
    found = changed_lines()
    assert {"int n = a <= 2 ? a : 0;", "int n = a >= 2 ? a : 0;", "int n = a < 3 ? a : 0;", "int n = a < 1 ? a : 0;",
            "int n = a < 2 ? a : 1;"} == found[6]
    assert {"if (b || n == LIMIT) {", "if (!b && n == LIMIT) {", "if (!b || n != LIMIT) {",
            "if (!(!b || n == LIMIT)) {"} == found[7]
    assert {'g("1 + 1", a - 1);', 'g("1 + 1", a + 2);', 'g("1 + 1", a + 0);', ";"} == found[8]
    assert {"n--;", ";"} == found[11]
    assert {"static const int table[] = {8};", "static const int table[] = {6};"} == found[19]


def test_directives_comments_texts_types_and_declarations_stay():
    assert not {2, 3, 4, 15, 16} & set(changed_lines())


def test_only_functions_that_contain_a_line_are_changed():
    assert set(changed_lines({8})) == {6, 7, 8, 9, 11}
    assert set(changed_lines({19})) == {19}
    assert changed_lines({16}) == {}
