"""Every mutant of tests/mutants fits the tree; every rule of docs/RULES.md is taken out by one, and every such one is of a rule."""
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts/lib"))
import canaries  # noqa: E402
import edge  # noqa: E402
import mutation  # noqa: E402
import rules  # noqa: E402

PRODUCT = {"base", "roce", "protocol", "reduce", "incengine", "incmanager", "commlib", "fallback", "sim"}


@pytest.mark.parametrize("row", rules.rows(), ids=lambda row: f"{row.section}: {row.rule}")
def test_every_named_test_of_a_rule_is_that_of_a_mutant(row):
    assert row.tests, "names no test"
    mutants = rules.mutants_of(row, rules.mutants())
    assert set(row.tests) - {test for mutant in mutants for test in mutant.tests} == set()


@pytest.mark.parametrize("row", rules.rows(), ids=lambda row: f"{row.section}: {row.rule}")
def test_every_alternative_of_the_third_column_is_a_mutant(row):
    assert len(rules.mutants_of(row, rules.mutants())) == len(row.taken_out)


@pytest.mark.parametrize("mutant", rules.mutants(), ids=lambda mutant: mutant.name)
def test_every_mutant_takes_out_a_rule_of_the_page(mutant):
    assert any(rules.mutants_of(row, [mutant]) for row in rules.rows())


def test_every_mutant_fits():
    """The build finds a canary that does not, but only behind most of what it builds."""
    assert mutation.misfits([*rules.mutants(), *edge.mutants(), *canaries.canaries()], ROOT) == []


def test_no_two_mutants_are_the_same_change():
    for of_kind in (rules.mutants(), edge.mutants(), canaries.canaries()):
        changes = [mutant.edits for mutant in of_kind]
        assert len(set(changes)) == len(changes)


@pytest.mark.parametrize("mutant", rules.mutants(), ids=lambda mutant: mutant.name)
def test_every_mutant_is_of_code_that_is_shipped(mutant):
    for file in mutation.files_of(mutant.edits):
        assert file.split("/")[0] in PRODUCT and "_test" not in file and "_fuzz" not in file, file
