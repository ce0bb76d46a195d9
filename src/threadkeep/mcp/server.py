"""The server: our tools in the words of the official SDK, which is loaded here and not before."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final
from uuid import uuid4
from zoneinfo import ZoneInfo

from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool as SdkTool,
    ToolAnnotations,
)

from threadkeep import __version__
from threadkeep.base.clock import now_ms
from threadkeep.home.stores import Stores
from threadkeep.mcp import contract_tools, memory_tools, own_tools, session_tools
from threadkeep.mcp.relay_state import INSTRUCTIONS, NAME
from threadkeep.mcp.tools import Tool, ToolContext, ToolOutput, call, input_schema, schema_of
from threadkeep.memory.fence import new_fence_id

READING: Final = (
    *(*own_tools.READING, *session_tools.TOOLS),
    *(*contract_tools.TOOLS, *memory_tools.TOOLS),
)


def offered(*, write: bool) -> tuple[Tool, ...]:
    """Return the tools that agents may use; those that write only where that was allowed."""
    return (*READING, *own_tools.WRITING) if write else READING


def make_room(stores: Stores) -> ToolContext:
    """Put together what every tool is given."""
    return ToolContext(stores, now_ms, ZoneInfo(stores.home.zone), new_fence_id, str(uuid4()))


def make_server(room: ToolContext, tools: Sequence[Tool]) -> "Server[Any]":
    """Make a server of tools; each call runs in a thread, so that none waits for another."""
    by_name = {tool.name: tool for tool in tools}
    listed = ListToolsResult(tools=[described(tool) for tool in tools])

    async def list_tools(_: Any, __: PaginatedRequestParams | None) -> ListToolsResult:
        return listed

    async def call_tool(ctx: Any, params: CallToolRequestParams) -> CallToolResult:
        tool = by_name.get(params.name)
        if tool is None:
            said = f"There is no tool {params.name!r}. Known: {', '.join(by_name)}"
            return _result(ToolOutput(said, None, is_error=True))
        asked = room._replace(client=_client_of(ctx))
        return _result(await asyncio.to_thread(call, tool, asked, params.arguments or {}))

    return Server(
        NAME,
        version=__version__,
        title=NAME,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def described(tool: Tool) -> SdkTool:
    """Describe a tool to clients."""
    return SdkTool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=input_schema(tool),
        output_schema=None if tool.answer is None else schema_of(tool.answer),
        annotations=ToolAnnotations(
            title=tool.title,
            read_only_hint=not tool.writes,
            destructive_hint=False,
            idempotent_hint=not tool.writes,
            open_world_hint=False,
        ),
    )


def _client_of(ctx: Any) -> str:
    """Name the program that asks, as far as it told."""
    params = getattr(getattr(ctx, "session", None), "client_params", None)
    name = getattr(getattr(params, "client_info", None), "name", None)
    return str(name)[:80] if name else "unknown"


def _result(answer: ToolOutput) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=answer.text)],
        structured_content=None if answer.is_error else answer.data,
        is_error=answer.is_error,
    )
