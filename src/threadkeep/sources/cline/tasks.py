"""Tasks of Cline, Roo Code and Kilo Code in an editor: three documents per task, rewritten often.

Texts and calls are those of the history that was sent to the model, tokens and models those of the
list that is shown. Where a task has no item of its own, its title and folder are those of the
program's list of all tasks; the sums there count where no list of what was shown is left.

With the older kind of tools a call is a tag in the answer's text, and its result is a text of the
user's next message.
"""

import re
from collections.abc import Iterator
from itertools import count as counting
from typing import Any, Final

from threadkeep.knowledge.records import Entry, SessionFacts, Usage
from threadkeep.sources.blocks import (
    call,
    message_blocks,
    moment,
    of_person,
    result,
    spent,
    spoken,
    tagged,
    without,
)
from threadkeep.sources.common import (
    block_text,
    numbered,
    rows,
    strange_name,
    table,
    text,
)
from threadkeep.sources.format import (
    DocumentFiles,
    Documents,
    Keyed,
    Told,
    decoded,
    named_by_folder,
)
from threadkeep.sources.places import place

_TOOLS: Final = (
    *(
        "execute_command",
        "read_file",
        "write_to_file",
        "replace_in_file",
        "apply_diff",
        "edit_file",
    ),
    *("search_files", "list_files", "list_code_definition_names", "browser_action", "use_mcp_tool"),
    *("access_mcp_resource", "ask_followup_question", "attempt_completion", "new_task", "condense"),
    *("plan_mode_respond", "switch_mode", "update_todo_list", "insert_content", "codebase_search"),
    *("search_and_replace", "fetch_instructions", "load_mcp_documentation", "report_bug"),
    *("web_fetch", "web_search", "run_slash_command", "generate_image", "use_skill"),
)
_RESULT: Final = re.compile(r"\A\[(\w+)(?: for [^\n]*)?\] Result:\n?")
_ASKED: Final = ("task", "feedback", "user_message", "answer")
_FOLDER: Final = re.compile(r"Current (?:Working|Workspace) Directory \(([^)\n]+)\)")
_MODEL: Final = re.compile(r"<model>([^<\n]+)</model>")
_AROUND: Final = "environment_details"
_REQUEST: Final = "api_req_started"
_DONE: Final = "attempt_completion"  # a call whose input is the answer


def _split(files: DocumentFiles) -> Iterator[Keyed]:
    task, own = files.json("history_item.json") or _listed(files), files.session_id
    shown = [table(one) for one in rows(files.json("ui_messages.json"))]
    if task is not None:
        told = any(one.get("say") == _REQUEST for one in shown)
        yield "task", {"type": "task", "id": own, "sums": not told, "data": task}
    last = {str(one.get("ts")): place_ for place_, one in enumerate(shown)}
    times = {str(one.get("conversationHistoryIndex")): one.get("ts") for one in reversed(shown)}
    for number, message in enumerate(rows(files.json())):
        fields = table(message)
        at = fields.get("ts") or times.get(str(number)) or times.get(str(number - 1))
        about = {"type": "message", "id": f"{own}:{number}", "n": number, "at": at}
        yield f"message{number}", {**about, "data": message}
    for place_, one in enumerate(shown):
        if one.get("partial") is True and last.get(str(one.get("ts"))) != place_:
            continue  # the same was written again when it was whole
        about = {"type": "shown", "id": f"{own}:{one.get('ts')}:{place_}", "at": one.get("ts")}
        yield f"shown{place_}", {**about, "data": one}


def _listed(files: DocumentFiles) -> dict[str, Any] | None:
    """Return what the list of all tasks says of a task: Cline, and older Roo and Kilo, have one."""
    tasks = map(table, rows(files.beside_root("state/taskHistory.json")))
    return next((one for one in tasks if text(one.get("id")) == files.session_id), None)


def _read(record: Any, number: int) -> Told:
    fields = table(record)
    data, key = table(fields.get("data")), text(fields.get("id")) or str(number)
    at = moment(fields.get("at"))
    match fields.get("type"):
        case "task":
            told = Told(facts=_facts(data))
            if fields.get("sums") is True:
                told.usage = [_usage(data, moment(data.get("ts")), "", f"{key}:sums")]
            return told
        case "message":
            return _message(data, at, key, fields.get("n"))
        case "shown":
            return _shown(data, at, key)
        case other:
            return Told(unknown=[strange_name(record, other)])


def _facts(task: dict[str, Any]) -> SessionFacts:
    parent = text(task.get("parentTaskId"))
    return SessionFacts(
        cwd=text(task.get("workspace")) or text(task.get("cwdOnTaskInitialization")),
        title=text(task.get("task")).partition("\n")[0],
        agent=text(task.get("mode")),
        parent_session_id=parent,
        is_subagent=bool(parent),
    )


def _shown(message: dict[str, Any], at: int | None, key: str) -> Told:
    """Read what is shown: the tokens of a request, and the model."""
    model = text(table(message.get("modelInfo")).get("modelId"))
    told = Told(facts=SessionFacts(model=model) if model else None)
    if message.get("say") == _REQUEST:
        told.usage = [_usage(table(decoded(message.get("text"))), at, model, key)]
    elif message.get("say") == "error":
        told.entries = numbered(
            spoken("system", "note", text(message.get("text")), at, error=True), key
        )
    return told


def _usage(request: dict[str, Any], at: int | None, model: str, key: str) -> Usage:
    names = ("tokensIn", "tokensOut", "cacheReads", "cacheWrites")
    usage = spent(key, at, model, request, names)
    usage.final = not {"cost", "totalCost"}.isdisjoint(request)  # else it is running, or was cut
    return usage


# ---------------------------------------------------------------------- the history


def _message(message: dict[str, Any], at: int | None, key: str, place_: object) -> Told:
    told, own = Told(), place_ if isinstance(place_, int) else 0
    content = message.get("content")
    if message.get("isSummary") is True:
        told.entries = spoken("system", "summary", text(content) or block_text(content), at)
    elif message.get("role") == "user":
        told.entries = _user(content, at, own, told.unknown)
        told.facts = _around(content)
    elif message.get("role") == "assistant":
        told.entries = _assistant(content, at, own, told.unknown)
    else:
        told.unknown.append(strange_name(message, "role", message.get("role")))
    numbered(told.entries, key)
    return told


def _around(content: object) -> SessionFacts | None:
    said = block_text(content)
    folder, model = _FOLDER.search(said), _MODEL.search(said)
    if not folder and not model:
        return None
    return SessionFacts(cwd=folder[1] if folder else "", model=model[1] if model else "")


def _user(content: object, at: int | None, own: int, strange: list[str]) -> list[Entry]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else rows(content)
    found: list[Entry] = []
    answers = counting()
    for block in map(table, blocks):
        match block.get("type"):
            case "text":
                _user_text(without(text(block.get("text")), _AROUND), at, own, answers, found)
            case "tool_result":
                found += message_blocks([block], at, "", strange)
                said = block_text(block.get("content"))
                found += _prompts(said, at)
            case _:
                found += of_person(message_blocks([block], at, "", strange))
    return found


def _prompts(said: str, at: int | None) -> list[Entry]:
    asked = [one.inside.strip() for one in tagged(said, *_ASKED)]
    return [entry for one in asked for entry in spoken("user", "prompt", one, at)]


def _user_text(
    said: str, at: int | None, own: int, answers: Iterator[int], found: list[Entry]
) -> None:
    """Read a text of the user's side: a result, what a person said, or more of a result."""
    begun = _RESULT.match(said)
    asked = _prompts(said, at)
    if begun:
        call_id = f"{own - 1}.{next(answers)}"
        found.append(result(call_id, said[begun.end() :], at, begun[1]))
        found += asked
    elif asked:
        found += asked
    elif found and found[-1].kind == "tool_result" and found[-1].call_id.startswith(f"{own - 1}."):
        found[-1].text = "\n".join(filter(None, (found[-1].text, said)))
    else:
        found += spoken("user", "prompt" if own == 0 else "note", said.strip(), at)


def _assistant(content: object, at: int | None, own: int, strange: list[str]) -> list[Entry]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else rows(content)
    found: list[Entry] = []
    asked = counting()
    for block in map(table, blocks):
        if block.get("type") == "text":
            found += _answer(text(block.get("text")), at, own, asked)
        elif block.get("type") == "reasoning":
            shown = text(block.get("text")) or block_text(block.get("summary"))
            found += spoken("assistant", "reasoning", shown, at)
        elif block.get("type") != "thoughtSignature":
            found += [_ended(entry) for entry in message_blocks([block], at, "", strange)]
    return found


def _ended(entry: Entry) -> Entry:
    """The last call of a task holds the answer itself, and has no result."""
    said = text(table(entry.input).get("result"))
    if entry.tool != _DONE or not said:
        return entry
    return Entry("", "assistant", "text", entry.at, said)


def _answer(said: str, at: int | None, own: int, asked: Iterator[int]) -> list[Entry]:
    """Read an answer's text; the older kind of calls are tags in it."""
    found: list[Entry] = []
    for thought in tagged(said, "thinking"):
        found += spoken("assistant", "reasoning", thought.inside.strip(), at)
    said = without(said, "thinking")
    found += spoken("assistant", "text", without(said, *_TOOLS).strip(), at)
    for one in tagged(said, *_TOOLS):
        given = {part.name: part.inside.strip("\n") for part in tagged(one.inside)}
        found.append(_ended(call(one.name, f"{own}.{next(asked)}", given, at)))
    return found


# ---------------------------------------------------------------------- the programs


def _tasks(agent: str, label: str, *folders: str) -> Documents:
    return Documents(
        agent=agent,
        label=label,
        places=(place(folders, "*/api_conversation_history.json"),),
        identify=named_by_folder,
        beside=("ui_messages.json", "history_item.json"),
        split=_split,
        read=_read,
    )


def _stored(extension: str) -> str:
    return f"{{editor}}/globalStorage/{extension}/tasks"


CLINE: Final = _tasks(
    *("cline", "Cline", _stored("saoudrizwan.claude-dev"), _stored("asbx.amzn-cline")),
    *("$CLINE_DATA_DIR/tasks", "~/.cline/data/tasks"),
)
ROO: Final = _tasks(
    *("roo-code", "Roo Code", _stored("rooveterinaryinc.roo-cline")),
    _stored("zoocodeorganization.zoo-code"),
)
KILO: Final = _tasks("kilo", "Kilo Code", _stored("kilocode.kilo-code"))
