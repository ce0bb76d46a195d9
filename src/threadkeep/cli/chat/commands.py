"""`threadkeep chat`: the commands of the chat store."""

from threadkeep.cli.chat.browse import ls, search, size
from threadkeep.cli.chat.care import prune, rm, verify
from threadkeep.cli.chat.follow import tail
from threadkeep.cli.chat.group import chat
from threadkeep.cli.chat.history import archive, fork, rewind
from threadkeep.cli.chat.record import record
from threadkeep.cli.chat.show import show
from threadkeep.cli.chat.transfer import diff, export, import_
from threadkeep.cli.groups import alias

for _command in (ls, show, search, tail, record, fork, rewind, archive, export, import_, diff):
    chat.add_command(_command)
for _command in (rm, size, prune, verify):
    chat.add_command(_command)
# One name for the same thing in all stores.
for _command in (alias(verify, "check"), alias(size, "sizes")):
    chat.add_command(_command)
