"""Codex: the names of everything that this version knows, so that the rest can be counted."""

from typing import Any, Final

from threadkeep.sources.common import rows, table, text

# Records beside the conversation: nothing in them is said or done.
_QUIET: Final = frozenset(
    {
        "compacted",
        "world_state",
        "inter_agent_communication",
        "inter_agent_communication_metadata",
        "security_risk_score",
        "realtime_item",
        "state",
    }
)
_BLOCKS: Final = frozenset(
    {
        "input_text",
        "output_text",
        "text",
        "refusal",
        "input_image",
        "output_image",
        "input_audio",
        "input_file",
        "encrypted_content",
    }
)
_EVENTS: Final = frozenset(
    {
        "agent_message",
        "agent_reasoning",
        "agent_reasoning_raw_content",
        "agent_reasoning_section_break",
        "background_event",
        "collab_agent_interaction_end",
        "collab_agent_spawn_end",
        "collab_close_end",
        "collab_resume_end",
        "collab_waiting_end",
        "context_compacted",
        "deprecation_notice",
        "dynamic_tool_call_request",
        "dynamic_tool_call_response",
        "entered_review_mode",
        "error",
        "exec_command_begin",
        "exec_command_end",
        "exited_review_mode",
        "guardian_assessment",
        "hook_completed",
        "hook_started",
        "image_generation_end",
        "item_completed",
        "item_started",
        "mcp_tool_call_begin",
        "mcp_tool_call_end",
        "model_reroute",
        "patch_apply_begin",
        "patch_apply_end",
        "plan_update",
        "session_configured",
        "shutdown_complete",
        "stream_error",
        "sub_agent_activity",
        "task_complete",
        "task_started",
        "terminal_interaction",
        "thread_goal_cleared",
        "thread_goal_updated",
        "thread_name_updated",
        "thread_rolled_back",
        "thread_settings_applied",
        "token_count",
        "turn_aborted",
        "turn_complete",
        "turn_diff",
        "turn_started",
        "undo_completed",
        "undo_started",
        "user_message",
        "view_image_tool_call",
        "warning",
        "web_search_begin",
        "web_search_end",
    }
)
_COMPLETED: Final = frozenset(
    {
        "AgentMessage",
        "CollabAgentToolCall",
        "CommandExecution",
        "ContextCompaction",
        "DynamicToolCall",
        "EnteredReviewMode",
        "ExitedReviewMode",
        "Extension",
        "FileChange",
        "HookPrompt",
        "ImageGeneration",
        "ImageView",
        "McpToolCall",
        "Plan",
        "Reasoning",
        "SubAgentActivity",
        "UserMessage",
        "WebSearch",
    }
)


def is_quiet(kind: str) -> bool:
    """Tell whether a type of record is known and needs no more than its entries."""
    return kind in _QUIET


def is_known_event(name: str, body: dict[str, Any]) -> bool:
    """Tell whether an event is known; one that holds an item, only with an item that is."""
    if name in {"item_completed", "item_started"}:
        return text(table(body.get("item")).get("type")) in _COMPLETED
    return name in _EVENTS


def strange_blocks(content: object) -> list[str]:
    """Name the types of blocks in a message that are not known."""
    found = [text(block.get("type")) for block in rows(content) if isinstance(block, dict)]
    return [name for name in found if name not in _BLOCKS]
