"""The checker on what the compiler really makes of the shipped types and traits."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.compiler.kubernetes.shipped import TRAITS, TYPES, applies, case_of, compiled, work_of
from tests.core.compiler.mutations import MUTATIONS, SECRET, Mutation, mutated

from windlass.core.compiler.checker.breaches import Allowed
from windlass.core.compiler.checker.check import check
from windlass.core.compiler.names import site_values
from windlass.core.compiler.rendering import trait_patches
from windlass.core.compiler.wishes import wishes
from windlass.core.compiler.work import Work
from windlass.core.documents.kinds import Site

SITES = [
    Site("kubernetes", queueing="site"),
    Site("kubernetes", queueing="site", isolation="dedicated-nodes"),
    Site("kubernetes", queueing="site", isolation="sandboxed"),
]
PAIRS = [(name, ()) for name in TYPES] + [
    (name, (trait,)) for name in TYPES for trait in TRAITS if applies(name, trait)
]


def made(name: str, traits: tuple[str, ...], site: Site, **spec: Any) -> tuple[Work, list[Any], Allowed]:
    case = case_of(name, *traits, **spec)
    wanted = wishes(case)
    patches = trait_patches(case, "kubernetes", site_values("fra1", site))
    tolerations = [one for _, patch in patches for one in patch.get("pod", {}).get("tolerations", ())]
    allowed = Allowed(
        tolerations=tuple(tolerations),
        claims=frozenset(wanted.volumes),
        secrets=frozenset(wanted.secrets),
        clear=frozenset({SECRET}),
    )
    return work_of(case, site), list(compiled(name, *traits, site=site, **spec)), allowed


@pytest.mark.parametrize(("name", "traits"), PAIRS, ids=lambda part: "+".join([*part]) if part else "alone")
def test_what_ships_breaks_no_law_on_any_kind_of_site(name: str, traits: tuple[str, ...]) -> None:
    for site in SITES:
        one, found, allowed = made(name, traits, site)
        assert check(one, "kubernetes", found, allowed) == ()


@pytest.mark.parametrize("trait", ["spot-tolerant", "storage", "secret"])
def test_what_a_trait_brings_is_a_breach_without_the_trait(trait: str) -> None:
    one, found, _ = made("training-job", (trait,), SITES[0])
    assert {breach.law for breach in check(one, "kubernetes", found)} <= {"toleration", "volume", "secret"}
    assert check(one, "kubernetes", found)


OF_THE_PLATFORM = [
    mutation
    for mutation in MUTATIONS
    if mutation.base == "training"
    and not any(part in mutation.path for part in ("/env/", "/volumes/", "/1/"))
]


@pytest.mark.parametrize("mutation", OF_THE_PLATFORM, ids=lambda mutation: mutation.id)
def test_a_change_of_what_the_compiler_made_is_caught(mutation: Mutation) -> None:
    one, found, allowed = made("training-job", (), SITES[0], command=["python", "train.py"], timeLimit="4h")
    changed = mutated(found, mutation)
    assert {mutation.law, "shape"} & {breach.law for breach in check(one, "kubernetes", changed, allowed)}
