"""`windlass`: the table of its commands, and what happens when one fails.

Exit codes: 0 ok, 1 bug or unexpected, 2 usage or invalid document, 3 rejected by policy, 4 not
found, 5 conflict, 6 server unavailable, 7 not permitted; 130 after Ctrl-C. What was asked for
goes to stdout; messages and progress go to stderr. With `-o json` or `-o yaml` a failure prints
its problem document to stdout, so that a script reads one place: the decision is inside.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from windlass.core.errors import WindlassError
from windlass.experience.cli.lazy import Entry, LazyGroup
from windlass.experience.cli.session import Group, Session

_HERE = "windlass.experience.cli"
_WORK, _CATALOG, _WHY, _MONEY, _WHO, _PLATFORM = (
    "Run things",
    "Documents",
    "Understand",
    "Quota and money",
    "Identity",
    "The platform",
)

COMMANDS = {
    "run": Entry(f"{_HERE}.run:run", "Run a command on GPUs and follow its log.", _WORK),
    "logs": Entry(f"{_HERE}.logs:logs", "Print or follow the log of a component.", _WORK),
    "wait": Entry(f"{_HERE}.actions:wait", "Wait until a component is in a phase.", _WORK),
    "cancel": Entry(f"{_HERE}.actions:cancel", "Stop components.", _WORK),
    "rerun": Entry(f"{_HERE}.actions:rerun", "Run finished jobs again.", _WORK),
    "apply": Entry(f"{_HERE}.apply:apply", "Create or change documents and components.", _CATALOG),
    "plan": Entry(f"{_HERE}.plan:plan", "Show what apply would do, where, when, at what price.", _CATALOG),
    "render": Entry(f"{_HERE}.render:render", "Show what the orchestrator would be told to run.", _CATALOG),
    "type": Entry(
        f"{_HERE}.types:type_group", "Compare component types, and move components to another.", _CATALOG
    ),
    "get": Entry(f"{_HERE}.get:get", "List documents of a kind, or show one.", _CATALOG),
    "describe": Entry(f"{_HERE}.describe:describe", "Show one thing with everything around it.", _CATALOG),
    "delete": Entry(f"{_HERE}.edit:delete", "Delete documents, or components that have ended.", _CATALOG),
    "edit": Entry(f"{_HERE}.edit:edit", "Change a document in your editor.", _CATALOG),
    "why": Entry(f"{_HERE}.why:why", "Say why it waits, was rejected or was preempted.", _WHY),
    "queue": Entry(f"{_HERE}.queue:queue", "Show who waits, in order, and who runs.", _WHY),
    "top": Entry(f"{_HERE}.top:top", "Show what the GPUs do now.", _WHY),
    "decisions": Entry(f"{_HERE}.records:decisions", "List what was admitted and rejected, and why.", _WHY),
    "events": Entry(f"{_HERE}.records:events", "List or watch what happens.", _WHY),
    "audit": Entry(f"{_HERE}.records:audit", "Show who did what.", _WHY),
    "slo": Entry(f"{_HERE}.slo:slo", "Show how the platform keeps its promises.", _WHY),
    "schedule": Entry(
        f"{_HERE}.schedule:schedule",
        "Run one cycle of the scheduling engine on a scenario and show what it decides and why.",
        _WHY,
    ),
    "sim": Entry(f"{_HERE}.sim:sim", "Run the scheduling engine on a day of work, in virtual time.", _WHY),
    "quota": Entry(f"{_HERE}.money:quota", "Show what is yours, what is free, what it costs.", _MONEY),
    "cost": Entry(f"{_HERE}.money:cost", "Show what was spent, by tenant, project or component.", _MONEY),
    "budget": Entry(f"{_HERE}.money:budget", "Show budgets, and what is left of them.", _MONEY),
    "usage": Entry(f"{_HERE}.money:usage", "List the GPU time that was metered.", _MONEY),
    "coverage": Entry(
        f"{_HERE}.coverage:coverage", "Show how much GPU time goes through component types.", _MONEY
    ),
    "login": Entry(f"{_HERE}.login:login", "Log in with an identity provider.", _WHO),
    "logout": Entry(f"{_HERE}.login:logout", "Forget your login, and end it at the provider.", _WHO),
    "whoami": Entry(f"{_HERE}.identity:whoami", "Show who you are and what you may do.", _WHO),
    "key": Entry(f"{_HERE}.keys:key", "Create, list, rotate and revoke API keys.", _WHO),
    "token": Entry(f"{_HERE}.keys:token", "Exchange your key or login for a short-lived token.", _WHO),
    "service-account": Entry(
        f"{_HERE}.keys:service_account", "Who acts without being a person: create, list, delete.", _WHO
    ),
    "context": Entry(f"{_HERE}.identity:context", "List the servers you know, and pick one.", _WHO),
    "up": Entry(f"{_HERE}.up:up", "Start the whole platform on this machine.", _PLATFORM),
    "demo": Entry(f"{_HERE}.up:demo", "Tell the whole story on a private platform.", _PLATFORM),
    "server": Entry(
        f"{_HERE}.server:server", "Run one replica of the control plane on PostgreSQL.", _PLATFORM
    ),
    "migrate": Entry(f"{_HERE}.server:migrate", "Bring a database to this release's schema.", _PLATFORM),
    "agent": Entry(f"{_HERE}.server:agent", "Run a site for servers elsewhere.", _PLATFORM),
    "backup": Entry(f"{_HERE}.backup:backup", "Copy the platform's database, while it runs.", _PLATFORM),
    "restore": Entry(f"{_HERE}.backup:restore", "Put a copy of the database back.", _PLATFORM),
    "defrag": Entry(
        f"{_HERE}.defrag:defrag", "Show which moves would free a place, or make them.", _PLATFORM
    ),
    "node": Entry(f"{_HERE}.capacity:node", "Show the machines.", _PLATFORM),
    "site": Entry(f"{_HERE}.capacity:site", "Show the sites, or give one up.", _PLATFORM),
    "completion": Entry(f"{_HERE}.completion:completion", "Print a completion script.", _PLATFORM),
    "version": Entry(f"{_HERE}.version:version", "Show the version of client and server.", _PLATFORM),
}


class Root(Group, LazyGroup):
    """The group of all commands."""

    def invoke(self, ctx: click.Context) -> Any:
        # Here and not in `main`: click would turn a closed pipe into exit code 1.
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            return _pipe_closed()
        return code


def make_root() -> Root:
    return Root(
        "windlass",
        table=COMMANDS,
        help=(
            "Windlass: a control plane for GPU platforms.\n\n\b\n"
            "  windlass up --demo                     a platform on this machine\n"
            "  windlass run --gpus 1 -p nlp -- python train.py\n"
            "  windlass apply -f train.yaml           submit it; `plan -f` only asks\n"
            "  windlass why sft-run                   why does it wait?"
        ),
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
        no_args_is_help=True,
    )


def main(args: Sequence[str] | None = None) -> int:
    """Runs one command line; returns its exit code."""
    session = Session()
    try:
        code = make_root().main(args=args, prog_name="windlass", obj=session, standalone_mode=False)
    except Exception as error:
        return _failed(error, session)
    return code if isinstance(code, int) else 0


def _failed(error: Exception, session: Session) -> int:
    try:
        match error:
            case click.exceptions.NoArgsIsHelpError():
                error.show()
                return 2
            case click.UsageError():
                error.show()
                return 2
            case click.ClickException():
                error.show()
                return error.exit_code
            case click.exceptions.Exit():
                return error.exit_code
            case click.Abort():
                return 130
            case WindlassError():
                from windlass.experience.cli.complaints import show

                show(error, session)
                return error.exit_code
    except BrokenPipeError:
        return _pipe_closed()
    return _bug(error, session)


def _bug(error: Exception, session: Session) -> int:
    if os.environ.get("WINDLASS_DEBUG"):
        import traceback

        traceback.print_exception(error)
    else:
        session.complain(f"error: {type(error).__name__}: {error}", fg="red")
        session.complain("this is a bug; run again with WINDLASS_DEBUG=1 for the traceback")
    return 1


def _pipe_closed() -> int:
    """Whoever read our output has seen enough: the exit code of SIGPIPE, and no traceback at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    return 141


def _exit() -> Any:
    sys.exit(main())


if __name__ == "__main__":
    _exit()
