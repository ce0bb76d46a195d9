"""Care: the doctor, alarms, and the watchdog."""

from threadkeep.cli.care.alarms import alarms, watchdog
from threadkeep.cli.care.doctor import doctor

__all__ = ["COMMANDS"]

COMMANDS = (doctor, alarms, watchdog)
