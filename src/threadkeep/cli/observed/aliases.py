"""Names under which Hippo's own scripts call: the same commands, left out of the help page."""

from threadkeep.cli.groups import alias
from threadkeep.cli.observed.browsers import native_host
from threadkeep.cli.observed.ci import poll
from threadkeep.cli.observed.ci_listing import pending

ALIASES = (
    alias(native_host, "native-messaging-host"),
    alias(poll, "gh-poll"),
    alias(pending, "gh-pending-notifications"),
)
