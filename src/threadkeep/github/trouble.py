"""What can go wrong between us and the CI server."""

from threadkeep.errors import Busy, Invalid, ThreadkeepError


class GithubBadAnswer(ThreadkeepError):
    """The server answered with something that is no answer."""

    http_status = 502


class Interrupted(GithubBadAnswer):
    """The server could not be reached, or the connection broke: trying again may help."""


class GithubRateLimit(Busy):
    """The server takes no more requests for now."""

    http_status = 429


class GithubRefusal(Invalid):
    """The server will not do what it was asked for."""

    http_status = 403
