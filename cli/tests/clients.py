"""Clients that others wrote, against a running gateway: `clients.py URL mcp|jupyter`. Run by `cli/tests/others.rs` where their packages are installed."""

import asyncio
import sys


async def mcp(url):
    from mcp import ClientSession

    try:
        from mcp.client.streamable_http import streamable_http_client as connect
    except ImportError:
        from mcp.client.streamable_http import streamablehttp_client as connect
    async with connect(url + "/mcp") as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            tools = [tool.name for tool in (await session.list_tools()).tools]
            assert "eval" in tools and "task_resume" in tools, tools
            await session.call_tool("session_create", {"name": "python"})
            answer = await session.call_tool("eval", {"session": "python", "code": "let z = 6; z * 7"})
            assert answer.content[0].text == "42", answer
            thrown = await session.call_tool("eval", {"session": "python", "code": "null.x"})
            assert "TypeError" in thrown.content[0].text, thrown
            await session.call_tool("file_write", {"session": "python", "path": "/a.txt", "text": "from python"})
            read = await session.read_resource("dormouse://default/python/a.txt")
            assert read.contents[0].text == "from python", read


def jupyter(url):
    import nbformat
    from jupyter_server.gateway.gateway_client import GatewayClient
    from jupyter_server.gateway.managers import GatewayKernelManager
    from nbclient import NotebookClient

    GatewayClient.instance().url = url
    sources = ["const a = 20; console.log('hello'); a", "a * 2 + 2", "null.x"]
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    book = nbformat.v4.new_notebook(cells=cells)
    book.metadata["kernelspec"] = {"name": "dormouse", "display_name": "Dormouse", "language": "typescript"}
    NotebookClient(book, timeout=60, kernel_name="dormouse", kernel_manager_class=GatewayKernelManager, allow_errors=True).execute(kernel_name="dormouse")
    first, second, third = (cell.outputs for cell in book.cells)
    assert [output.output_type for output in first] == ["stream", "execute_result"], first
    assert first[0].text == "hello\n" and second[0].data["text/plain"] == "42", (first, second)
    assert third[0].ename == "TypeError", third


if sys.argv[2] == "mcp":
    asyncio.run(mcp(sys.argv[1]))
else:
    jupyter(sys.argv[1])
print("ok")
