"""`threadkeep mail`: the commands of the mailbox."""

from threadkeep.cli.groups import alias
from threadkeep.cli.mail.agent import ack, poll
from threadkeep.cli.mail.browse import ls, tail, trace
from threadkeep.cli.mail.care import pause, sweep, verify
from threadkeep.cli.mail.dead import retry
from threadkeep.cli.mail.demo import demo
from threadkeep.cli.mail.echo import echo
from threadkeep.cli.mail.group import mail
from threadkeep.cli.mail.ncl import ncl
from threadkeep.cli.mail.prune import prune
from threadkeep.cli.mail.serve import serve
from threadkeep.cli.mail.times import next_
from threadkeep.cli.mail.write import new, send

for _command in (new, ls, send, poll, ack, tail, trace, retry, pause, verify, sweep, serve):
    mail.add_command(_command)
for _command in (prune, ncl, next_, echo, demo):
    mail.add_command(_command)
# One name for the same thing in all stores.
for _command in (alias(verify, "check"),):
    mail.add_command(_command)
