"""render: the compiler at the command line, without a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.control.documents import CATALOG
from tests.experience.test_apply import write
from tests.experience.test_commands import Run, run

__all__ = ["run"]  # a fixture

JOB = """\
apiVersion: windlass.dev/v1
kind: Component
metadata: {name: sft-run, project: nlp}
spec:
  type: training-job
  env: prod
  image: ghcr.io/acme/sft:v3
  gpus: 2
  workers: 2
  command: [python, train.py]
"""


@pytest.fixture
def catalog(tmp_path: Path) -> str:
    """A folder as people have it: a component among the documents is not part of the catalog."""
    folder = tmp_path / "catalog"
    folder.mkdir()
    write(folder, "all.yaml", CATALOG)
    write(folder, "job.yaml", JOB)
    return str(folder)


def test_the_same_intent_renders_to_the_same_canonical_bytes(run: Run, tmp_path: Path, catalog: str) -> None:
    file = write(tmp_path, "c.yaml", JOB)
    code, out, _ = run("render", "-f", file, "--catalog", catalog)
    assert code == 0 and run("render", "-f", file, "--catalog", catalog)[1] == out
    shown = json.loads(out)
    assert out == json.dumps(shown, sort_keys=True, separators=(",", ":")) + "\n"
    assert shown["component"] == "nlp/prod/sft-run"
    assert shown["manifest"]["command"] == ["python", "train.py"]
    assert (shown["shape"]["gpus"], shown["shape"]["workers"]) == (2000, 2)
    assert "component: nlp/prod/sft-run" in run("render", "-f", file, "--catalog", catalog, "-o", "yaml")[1]


def test_what_would_be_rejected_is_exit_3_with_its_place(run: Run, tmp_path: Path, catalog: str) -> None:
    file = write(tmp_path, "c.yaml", JOB.replace("gpus: 2", "gpus: 8"))
    code, out, err = run("render", "-f", file, "--catalog", catalog)
    assert (code, out) == (3, "")
    assert f"{file}:8: spec.gpus" in err and "[entitlement.max]" in err


def test_a_catalog_that_no_server_would_take_renders_nothing(run: Run, tmp_path: Path, catalog: str) -> None:
    tier = "apiVersion: windlass.dev/v1\nkind: Tenant\nmetadata: {name: lost}\nspec: {tier: none}\n"
    write(Path(catalog), "lost.yaml", tier)
    code, out, err = run("render", "-f", write(tmp_path, "c.yaml", JOB), "--catalog", catalog)
    assert (code, out) == (2, "") and "there is no tier none" in err


@pytest.mark.parametrize("target", ["kubernetes", "slurm"])
def test_every_target_is_rendered_and_the_same_bytes_each_time(
    run: Run, tmp_path: Path, catalog: str, target: str
) -> None:
    file = write(tmp_path, "c.yaml", JOB)
    code, out, _ = run("render", "-f", file, "--catalog", catalog, "--target", target)
    assert code == 0 and run("render", "-f", file, "--catalog", catalog, "--target", target)[1] == out
    made = json.loads(out)
    assert (made["target"], made["site"]) == (target, target) and made["manifests"]
    code, out, err = run("render", "-f", file, "--catalog", catalog, "--target", target, "--site", "moon")
    assert (code, out) == (2, "") and f"there is no {target} site moon" in err


def test_a_site_is_rendered_with_every_cell_and_what_it_requires(
    run: Run, tmp_path: Path, catalog: str
) -> None:
    folder = tmp_path / "with-a-site"
    folder.mkdir()
    site = {"apiVersion": "windlass.dev/v1", "kind": "Site", "metadata": {"name": "fra1"}}
    write(folder, "site.yaml", json.dumps({**site, "spec": {"orchestrator": "kubernetes"}}))
    whole = Path(catalog)
    for page in whole.glob("*.yaml") if whole.is_dir() else [whole]:
        write(folder, page.name, page.read_text())
    code, out, _ = run("site", "render", "fra1", "--catalog", str(folder))
    assert code == 0
    made = json.loads(out)
    kinds = {one["kind"] for one in made["objects"]}
    assert {"ClusterQueue", "Cohort", "LocalQueue", "Namespace", "NetworkPolicy", "ResourceFlavor"} <= kinds
    assert made["requirements"]
    code, _, err = run("site", "render", "local", "--catalog", str(folder))
    assert code == 4 and "no Kubernetes site" in err


HOURS = """\
apiVersion: windlass.dev/v1
kind: Policy
metadata: {name: this-century}
spec:
  rules: [{name: this-century, require: "now > timestamp('2000-01-01T00:00:00Z')"}]
  tests: [{name: today, now: "2026-01-05T09:00:00Z", spec: {}}]
"""


def test_what_the_moment_allows_is_rendered(run: Run, tmp_path: Path, catalog: str) -> None:
    write(Path(catalog), "hours.yaml", HOURS)
    code, _, said = run("render", "-f", write(tmp_path, "c.yaml", JOB), "--catalog", catalog)
    assert code == 0, said


def test_a_target_that_a_type_has_nothing_for_is_named(run: Run, tmp_path: Path, catalog: str) -> None:
    """Also local: what is rendered there would never run there."""
    only = """\
apiVersion: windlass.dev/v1
kind: ComponentType
metadata: {name: array}
spec: {version: 1.0.0, workload: job, templates: {slurm: {command: [x], options: {array: "4"}}}}
"""
    write(Path(catalog), "array.yaml", only)
    write(Path(catalog), "site.yaml", SLURM_SITE)
    file = write(
        tmp_path,
        "c.yaml",
        JOB.replace("training-job", "array").replace("  command: [python, train.py]\n", ""),
    )
    for target in ("local", "kubernetes"):
        code, out, err = run("render", "-f", file, "--catalog", catalog, "--target", target)
        assert (code, out) == (3, "")
        assert f"does not run on {target}: the type array has no template for {target}" in err
        assert "--target" in err
    assert run("render", "-f", file, "--catalog", catalog, "--target", "slurm")[0] == 0


SLURM_SITE = """\
apiVersion: windlass.dev/v1
kind: Site
metadata: {name: hpc}
spec: {orchestrator: slurm, queueing: site}
"""
