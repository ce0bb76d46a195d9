"""The commands of the mailbox."""
