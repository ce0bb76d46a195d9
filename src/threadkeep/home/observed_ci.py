"""What surfaces need of CI, named in one place, so that none imports a service."""

from threadkeep.github.ci import Ci
from threadkeep.github.polling import Report
from threadkeep.knowledge.lessons import Lesson
from threadkeep.knowledge.watchlist import Pending, Watched
from threadkeep.knowledge.workflows import Job, Run, RunDetails, RunRow

__all__ = ["Ci", "Job", "Lesson", "Pending", "Report", "Run", "RunDetails", "RunRow", "Watched"]
