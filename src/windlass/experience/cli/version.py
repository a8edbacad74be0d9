"""`version`: of this client, and of the server if one answers."""

from __future__ import annotations

from windlass import __version__
from windlass.core.errors import WindlassError
from windlass.experience.cli.output import print_value, write
from windlass.experience.cli.session import Session, command, pass_session


@command("version", short_help="Show the version of client and server.")
@pass_session
def version(session: Session) -> None:
    """Show the version of client and server. A server that is away is no error.

    \b
      windlass version
      windlass version -o json
    """
    try:
        server = session.client.version()
    except WindlassError as error:
        session.say(f"note: {error.detail}")
        server = None
    if session.machine:
        value = {
            "client": __version__,
            "server": server.version if server else None,
            "api": server.api if server else None,
        }
        print_value(value, session.output)
    elif session.output == "name":
        write(f"version/{__version__}")
    else:
        write(f"windlass {__version__}")
        if server:
            write(f"server   {server.version} (API {server.api})")
