"""`threadkeep state`: the commands of the state store."""

from threadkeep.cli.groups import alias
from threadkeep.cli.state.browse import ls, search
from threadkeep.cli.state.care import check, compact, prune, reindex, release, rm, sizes
from threadkeep.cli.state.group import state
from threadkeep.cli.state.marks import archive, pin, rewind, title, undo, unpin
from threadkeep.cli.state.show import lineage, show
from threadkeep.cli.state.stats import stats
from threadkeep.cli.state.transfer import export, import_

for _command in (ls, show, search, stats, lineage, title, pin, unpin, archive, rewind, undo):
    state.add_command(_command)
for _command in (export, import_, rm, prune, compact, sizes, check, reindex, release):
    state.add_command(_command)
# One name for the same thing in all stores.
for _command in (alias(check, "verify"), alias(sizes, "size")):
    state.add_command(_command)
