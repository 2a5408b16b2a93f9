"""Every rule of docs/RULES.md is taken out by a mutant of tests/mutants, and every mutant is of a rule, and applies."""
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts/lib"))
import patches  # noqa: E402
import rules  # noqa: E402

PRODUCT = {"base", "roce", "protocol", "reduce", "incengine", "incmanager", "commlib", "sim"}


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


def test_every_mutant_applies():
    assert patches.misfits([mutant.patch for mutant in rules.mutants()], ROOT) == []


@pytest.mark.parametrize("mutant", rules.mutants(), ids=lambda mutant: mutant.name)
def test_every_mutant_is_of_code_that_is_shipped(mutant):
    for file in patches.files_of(mutant.patch):
        assert file.split("/")[0] in PRODUCT and "_test" not in file and "_fuzz" not in file, file
