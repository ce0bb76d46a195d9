"""Care: the doctor, alarms, and the watchdog."""
