"""The bare thing in Python: an MCP server with one tool that checks nothing and records nothing.

usage: echo.py (stdio|http PORT)
"""

import sys

from mcp.server import MCPServer

server = MCPServer("echo")


@server.tool()
def echo(text: str) -> str:
    """Gives the text back."""
    return text


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", port=int(sys.argv[2]), json_response=True, stateless_http=True)
