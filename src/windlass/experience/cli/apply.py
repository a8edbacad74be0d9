"""`apply -f`: the catalog documents in one request, then the components one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import click
import msgspec

from windlass.core.errors import Unauthenticated, Unavailable, WindlassError
from windlass.experience.cli import completing
from windlass.experience.cli.affected import print_affected
from windlass.experience.cli.columns import price_of
from windlass.experience.cli.complaints import for_a_person, problem_of, sentence, show_reasons, warning_line
from windlass.experience.cli.exits import worst
from windlass.experience.cli.files import Source, read_sources
from windlass.experience.cli.output import print_value, write
from windlass.experience.cli.progress import waiting
from windlass.experience.cli.session import Session, command, pass_session
from windlass.sdk import api

files_option = click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    metavar="FILE|DIR|-",
    shell_complete=completing.complete_file,
    help="A file, a folder of *.yaml, *.yml and *.json, or - for stdin. May be repeated.",
)

_OUTCOME_EXITS = {"rejected": 3, "invalid": 2, "conflict": 5, "not-permitted": 7}


class Outcome(NamedTuple):
    """What became of one document. `error` is there when its request failed."""

    source: Source
    result: api.Result
    error: WindlassError | None = None

    @property
    def exit_code(self) -> int:
        if self.error is None:
            return 0
        return _OUTCOME_EXITS.get(self.result.outcome, self.error.exit_code)


@command("apply", short_help="Create or change documents and components.")
@files_option
@click.option("--dry-run", is_flag=True, help="Only say what would happen; commit nothing.")
@click.option("--wait", "wait", is_flag=True, help="Wait until jobs have ended and services run.")
@pass_session
def apply(session: Session, files: Sequence[str], *, dry_run: bool, wait: bool) -> int:
    """Create or change documents and components.

    The catalog documents of one invocation are accepted together or not at all; then components
    are submitted one by one. The exit code is the worst of all, in the order 1, 2, 3, 5, 7, 4, 6.

    \b
      windlass apply -f catalog/ -f train.yaml
      windlass apply -f train.yaml --wait
      kustomize build | windlass apply -f -
    """
    sources = read_sources(files)
    catalog = [one for one in sources if not one.is_component]
    components = [one for one in sources if one.is_component]
    answer = _Applied(session, dry_run=dry_run)
    if dry_run:  # together, like `plan`: components are judged by the catalog there would be
        answer.all_at_once([*catalog, *components])
    else:
        answer.catalog(catalog)
        answer.components(components)
    if wait and not dry_run:
        answer.wait()
    answer.finish()
    return answer.exit_code


class _Applied:
    """The state of one invocation: what became of each document so far, in order."""

    def __init__(self, session: Session, *, dry_run: bool) -> None:
        self._session = session
        self._dry_run = dry_run
        self._outcomes: list[Outcome] = []
        self._revision = 0
        self._affected: api.Affected | None = None
        self._waited: list[int] = []
        self._stopped = ""

    @property
    def exit_code(self) -> int:
        return worst([*(one.exit_code for one in self._outcomes), *self._waited])

    def all_at_once(self, sources: list[Source]) -> None:
        self._send(sources)

    def catalog(self, sources: list[Source]) -> None:
        if not sources:
            return
        self._send(sources)
        if self.exit_code:
            self._stopped = "the catalog documents were not accepted"

    def components(self, sources: list[Source]) -> None:
        for source in sources:
            if self._stopped:
                self._record([Outcome(source, _result(source, "skipped", self._stopped))])
            else:
                self._send([source])

    def wait(self) -> None:
        """Until final for jobs, Running for services; what cannot be waited for has been told."""
        for outcome in self._outcomes:
            if outcome.source.is_component and outcome.error is None and outcome.result.outcome != "skipped":
                self._wait_for(outcome)

    def finish(self) -> None:
        """With -o json or yaml: one document. The problem of the worst failure, with the results
        of all documents; or the answer when all went well."""
        if not self._session.machine:
            print_affected(self._session, self._affected)
            return
        results = [one.result for one in self._outcomes]
        failed = [one for one in self._outcomes if one.error is not None]
        if not failed:
            value: Any = api.ApplyAnswer(
                results=results, revision=self._revision, dry_run=self._dry_run, affected=self._affected
            )
        else:
            code = worst(one.exit_code for one in failed)
            error = next(one.error for one in failed if one.exit_code == code)
            assert error is not None  # by the choice of `failed`
            value = msgspec.structs.replace(problem_of(error), results=results)
        print_value(value, self._session.output)

    def _send(self, sources: list[Source]) -> None:
        documents = [one.document for one in sources]
        try:
            answer = self._session.client.apply(
                documents[0] if len(documents) == 1 else documents, dry_run=self._dry_run
            )
        except WindlassError as error:
            if isinstance(error, Unavailable | Unauthenticated):
                self._stopped = "the server could not be asked"
            self._record(_failed(sources, error))
        else:
            self._revision = max(self._revision, answer.revision)
            self._affected = answer.affected
            self._record([Outcome(*pair) for pair in zip(sources, answer.results, strict=True)])

    def _record(self, outcomes: list[Outcome]) -> None:
        """The outcomes of one request: a line for each, then why it failed, once."""
        self._outcomes += outcomes
        for outcome in outcomes:
            self._tell(outcome)
        failed = [one for one in outcomes if one.error is not None]
        if failed and (error := failed[0].error) is not None:
            _complain(self._session, failed, for_a_person(error, self._session))

    def _tell(self, outcome: Outcome) -> None:
        if self._session.machine:
            return
        if self._session.output == "name":
            if outcome.exit_code == 0 and outcome.result.outcome != "skipped":
                write(name_of(outcome.result))
            return
        write(line_of(outcome.result, dry_run=self._dry_run))
        decision = outcome.result.decision
        for warning in decision.warnings if decision is not None else []:
            where = outcome.source.where(warning.field)
            self._session.say(f"  warning: {where}: {warning_line(warning)}", fg="yellow")

    def _wait_for(self, outcome: Outcome) -> None:
        path = name_of(outcome.result).removeprefix("component/")
        session = self._session
        try:
            with waiting(session, f"waiting for {path}"):
                phase = "Running" if _serves(session, outcome.source) else "final"
                found = session.client.wait(path, phase)
        except WindlassError as error:
            session.complain(f"error: {sentence(error)}", fg="red")
            self._waited.append(error.exit_code)
            return
        reached = found.status.phase
        session.say(f"component/{path} {reached}")
        if reached not in {"Running", "Succeeded"}:
            self._waited.append(5)


def line_of(result: api.Result, *, dry_run: bool = False) -> str:
    """`component/nlp/prod/sft-run admitted  dec_…  19.92 USD/h`."""
    decision = result.decision
    word: str = result.outcome
    if decision is not None and result.outcome in {"created", "changed", "rejected"}:
        word = decision.verdict
    elif result.outcome == "skipped":
        word = "not applied"
    elif result.outcome == "unchanged" and result.message:
        # Such as: unchanged; it has Succeeded (`windlass rerun` runs it again)
        rest = result.message.removeprefix("nothing changed")
        word = rest if rest.startswith(word) else f"{word}{rest if rest[:1] == ';' else f': {rest}'}"
    parts = [f"{name_of(result)} {word}{' (dry run)' if dry_run else ''}"]
    if decision is not None and result.outcome != "unchanged":
        parts += [decision.id, price_of(decision) if decision.verdict != "rejected" else ""]
    if result.outcome == "skipped":
        parts.append(result.message)
    return "  ".join(part for part in parts if part)


def name_of(result: api.Result) -> str:
    if result.kind != "Component":
        return f"{result.kind.lower()}/{result.name}"
    return "/".join(part for part in ("component", result.project, result.env, result.name) if part)


def _failed(sources: list[Source], error: WindlassError) -> list[Outcome]:
    """One outcome per document of a request that failed, whether or not the server listed them.

    The documents of one request stand or fall together, but only those named in the reasons are to
    blame; the others were merely not applied."""
    listed = error.extra.get("results") or []
    if len(listed) == len(sources):
        return [
            Outcome(source, result, error if result.outcome in _OUTCOME_EXITS else None)
            for source, result in zip(sources, listed, strict=True)
        ]
    words = {3: "rejected", 2: "invalid", 5: "conflict", 7: "not-permitted"}
    word = words.get(error.exit_code, "skipped")
    blamed = _blamed(sources, problem_of(error).reasons)
    if not blamed:
        return [Outcome(one, _result(one, word, error.detail), error) for one in sources]
    outcomes = []
    for index, source in enumerate(sources):
        if index in blamed:
            result = _result(source, word, error.detail)
            outcomes.append(Outcome(source, msgspec.structs.replace(result, reasons=blamed[index]), error))
        else:
            outcomes.append(Outcome(source, _result(source, "skipped", "")))
    return outcomes


def _blamed(sources: list[Source], reasons: Sequence[api.Reason]) -> dict[int, list[api.Reason]]:
    """The reasons by the document they begin with: `Envelope nlp-prod: …`. Those that name none of
    the documents (another one is in the way) belong to the first."""
    found: dict[int, list[api.Reason]] = {}
    rest: list[api.Reason] = []
    places: dict[str, int] = {}
    for at, one in enumerate(sources):
        places.setdefault(f"{one.kind} {one.document['metadata']['name']}", at)
    for reason in reasons:
        index = places.get(_document_of(reason.message))
        if index is None:
            rest.append(reason)
        else:
            found.setdefault(index, []).append(reason)
    if found:
        found[min(found)] += rest
    return found


def _document_of(message: str) -> str:
    """`Trait hot@1.0.0: …`, `Tier gold is given twice` -> `Trait hot`, `Tier gold`."""
    kind, _, rest = message.partition(" ")
    return f"{kind} {rest.partition(' ')[0].rstrip(':').partition('@')[0]}"


def _complain(session: Session, outcomes: list[Outcome], error: WindlassError) -> None:
    """The reasons under their documents, with file and line; else the failure as a whole."""
    told = False
    for outcome in outcomes:
        decision = outcome.result.decision
        reasons = outcome.result.reasons or (decision.reasons if decision else [])
        if not reasons and outcome is outcomes[0]:
            reasons = problem_of(error).reasons
        show_reasons(reasons, session, [outcome.source.where(one.field) for one in reasons])
        told = told or bool(reasons)
    if not told:
        session.complain(f"  {sentence(error)}", fg="red")
        if error.remedy:
            session.complain(f"    try: {error.remedy}")


def _result(source: Source, outcome: str, message: str) -> api.Result:
    metadata = source.document["metadata"]
    spec = source.document.get("spec")
    return msgspec.convert(
        {
            "kind": source.kind,
            "name": metadata["name"],
            "outcome": outcome,
            "project": metadata.get("project"),
            "tenant": metadata.get("tenant"),
            "env": spec.get("env") if isinstance(spec, dict) else None,
            "message": message,
        },
        api.Result,
        strict=False,
    )


def _serves(session: Session, source: Source) -> bool:
    """Whether the component's type never ends by itself."""
    if source.is_front:
        return True
    name = str(source.document["spec"]["type"]).partition("@")[0]
    try:
        found = session.client.document("ComponentType", name)
    except WindlassError:
        return False  # not allowed to look: waiting for the end is the safe reading
    return found.spec.get("workload") in {"service", "interactive"}
