"""The official Python client against Toolgate, in both eras of the protocol.

usage: client.py stdio WORKSPACE TOOLGATE DATA_DIR
       client.py http WORKSPACE URL TOKEN

Every deviation is an exception, and an exception is a non-zero exit status. The client itself holds each result against
the output schema of its tool, so a result that does not fit fails here too.
"""

import asyncio
import os
import sys
from pathlib import Path

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

TOOLS = {
    "calculator", "convert_temperature", "delete", "echo", "edit", "find", "generate_password", "generate_uuid",
    "get_time", "grep", "hash_text", "json_format", "ls", "read", "string_stats", "url_encode", "write",
}  # fmt: skip


def expect(condition: bool, what: object) -> None:
    if not condition:
        raise AssertionError(what)


async def all_tools(client: Client) -> dict:
    tools, cursor = {}, None
    while True:
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            expect(tool.name not in tools, f"{tool.name} is listed twice")
            tools[tool.name] = tool
        cursor = page.next_cursor
        if cursor is None:
            return tools


async def check_tools(client: Client) -> None:
    tools = await all_tools(client)
    expect(TOOLS <= set(tools), f"missing: {TOOLS - set(tools)}")
    expect(list(tools) == sorted(tools), "the order is that of the names")
    for tool in tools.values():
        expect(bool(tool.title and tool.description), tool)
        expect(tool.input_schema["type"] == "object", tool)
        expect(tool.output_schema["type"] == "object", tool)
    expect(tools["read"].annotations.read_only_hint is True, tools["read"])
    expect(tools["delete"].annotations.destructive_hint is True, tools["delete"])


async def check_calls(client: Client, workspace: Path, era: str) -> None:
    result = await client.call_tool("calculator", {"expression": "2 * (3 + 4)"})
    expect(result.is_error is False, result)
    expect("14" in result.content[0].text, result)
    expect(14 in result.structured_content.values(), result)

    name, text = f"python-{era}.txt", "first\nsecond ü\n"
    result = await client.call_tool("write", {"path": name, "content": text})
    expect(result.is_error is False, result)
    expect((workspace / name).read_text() == text, "the file is there")
    result = await client.call_tool("read", {"path": name})
    expect(result.is_error is False and "second ü" in result.content[0].text, result)
    expect(result.structured_content["path"] == name, result)


async def check_errors(client: Client) -> None:
    async def code(tool: str, arguments: dict) -> str:
        result = await client.call_tool(tool, arguments)
        expect(result.is_error is True, result)
        expect(result.structured_content is None, result)
        outcome = result.meta["io.github.toolgate/outcome"]
        expect(bool(outcome["message"] and outcome["remedy"] and outcome["call"]), outcome)
        expect(outcome["code"] in result.content[0].text, result)
        return outcome["code"]

    expect(await code("calculator", {}) == "invalid_arguments", "a missing argument")
    expect(await code("calculator", {"expression": 1}) == "invalid_arguments", "an argument of the wrong type")
    expect(await code("read", {"path": "/etc/hostname"}) == "path_outside_workspace", "a path outside")
    try:
        await client.call_tool("calculatr", {})
    except MCPError as error:
        expect(error.error.code == -32602, error)
        expect(error.error.data["code"] == "unknown_tool", error)
    else:
        raise AssertionError("an unknown tool was called")


async def check_many(client: Client) -> None:
    texts = [f"message {n}" for n in range(100)]
    results = await asyncio.gather(*(client.call_tool("echo", {"text": text}) for text in texts))
    expect([result.content[0].text for result in results] == texts, "every answer went to its call")


def over_stdio(workspace: str, toolgate: str, data: str) -> StdioServerParameters:
    env = {"PATH": os.environ["PATH"], "HOME": data, "TOOLGATE_DATA_DIR": data}
    return StdioServerParameters(command=toolgate, args=["serve", "--stdio"], env=env, cwd=workspace)


def over_http(_workspace: str, url: str, token: str):
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30)
    return streamable_http_client(url, http_client=http)


async def main() -> None:
    way, *place = sys.argv[1:]
    workspace = Path(place[0])
    for mode, version in [("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28", "2026-07-28")]:
        server = {"stdio": over_stdio, "http": over_http}[way](*place)
        async with Client(server, mode=mode, read_timeout_seconds=30) as client:
            expect(client.protocol_version == version, (mode, client.protocol_version))
            await check_tools(client)
            if mode != "2026-07-28":
                expect(client.server_info.name == "toolgate", client.server_info)
                expect(bool(client.instructions), "instructions")
            await check_calls(client, workspace, mode)
            await check_errors(client)
            await check_many(client)
        print(f"python client over {way}, mode {mode}: ok")


asyncio.run(main())
