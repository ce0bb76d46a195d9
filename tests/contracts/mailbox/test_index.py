"""The index of mailboxes: agents, chats, sessions, destinations and questions in mailbox.db."""

from typing import get_args

from hypothesis import given, strategies as st

from threadkeep.mailbox.index import effective_mode
from threadkeep.mailbox.index_records import SessionMode

MODES = get_args(SessionMode)


@given(mode=st.sampled_from(MODES), threaded=st.booleans(), is_group=st.booleans())
def test_only_threads_in_a_group_change_the_mode(
    mode: SessionMode, *, threaded: bool, is_group: bool
) -> None:
    counts = effective_mode(mode, threaded=threaded, is_group=is_group)
    assert counts == mode or (threaded and is_group and mode == "shared" and counts == "per-thread")
