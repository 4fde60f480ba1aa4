"""Clients that others wrote, against a running gateway: `clients.py URL mcp|stdio|socket|jupyter|kernel`. Run by `cli/tests/others.rs` where their packages are installed."""

import asyncio
import os
import sys
import warnings

# Of what a revision has deprecated, which its clients still have.
warnings.simplefilter("ignore")


async def everything(client):
    """Sessions, cells, mistakes and files, by the door of all sessions, for a client of any era."""
    tools = [tool.name for tool in (await client.list_tools()).tools]
    assert "eval" in tools and "task_resume" in tools, tools
    await client.call_tool("session_create", {"name": "python"})
    answer = await client.call_tool("eval", {"session": "python", "code": "{ let z = 6; z * 7 }"})
    assert answer.content[0].text == "42", answer
    thrown = await client.call_tool("eval", {"session": "python", "code": "null.x"})
    assert "TypeError" in thrown.content[0].text, thrown
    await client.call_tool("file_write", {"session": "python", "path": "/a.txt", "text": "from python"})
    read = await client.read_resource("dormouse://default/python/a.txt")
    assert read.contents[0].text == "from python", read
    done = await client.call_tool("eval", {"session": "python", "code": FUNCTIONS})
    assert done.content[0].text == "1", done


async def stdio(url):
    """The same through a process on this machine, by the command that is named in the environment."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    server = StdioServerParameters(command=os.environ["DORMOUSE_COMMAND"], args=["--server", url, "mcp"])
    try:
        from mcp import Client
    except ImportError:
        async with stdio_client(server) as streams:
            async with ClientSession(*streams) as session:
                await session.initialize()
                await everything(session)
        return
    for mode in ["legacy", "2026-07-28"]:
        async with Client(server, mode=mode) as client:
            await everything(client)


async def mcp(url):
    from mcp import ClientSession

    try:
        from mcp.client.streamable_http import streamable_http_client as connect
    except ImportError:
        from mcp.client.streamable_http import streamablehttp_client as connect
    async with connect(url + "/mcp") as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            await everything(session)
    own = url + "/v1/namespaces/default/sessions/python/mcp"
    logged = []

    async def log(params):
        logged.append(params.data)

    try:
        from mcp import Client
    except ImportError:
        async with connect(own) as streams:
            async with ClientSession(streams[0], streams[1], elicitation_callback=person, sampling_callback=model, logging_callback=log) as session:
                await session.initialize()
                await session.set_logging_level("info")
                await served(session)
        assert logged == ["ordering"], logged
        return
    for mode in ["legacy", "2026-07-28"]:
        async with Client(url + "/mcp", mode=mode) as client:
            await everything(client)
        logged.clear()
        async with Client(own, mode=mode, elicitation_callback=person, sampling_callback=model, logging_callback=log, log_level="info") as client:
            if mode == "legacy":
                await client.set_logging_level("info")
            await served(client)
            if mode == "2026-07-28":
                async with client.listen(prompts_list_changed=True) as changes:
                    await client.call_tool("rename", {})
                    async for _ in changes:
                        break
        assert logged == ["ordering"], (mode, logged)


# Functions of a session that ask their client.
FUNCTIONS = """
mcp.tool('order', {}, async () => {
  console.log('ordering');
  const { action, content } = await mcp.elicit({ message: 'How many?', requestedSchema: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] } });
  const rhyme = await mcp.sample({ messages: [{ role: 'user', content: { type: 'text', text: 'A rhyme' } }], maxTokens: 9 });
  return `${action} ${content.n} ${rhyme.content.text}`;
});
mcp.tool('rename', {}, () => { mcp.removePrompt('review'); mcp.prompt('revise', {}, () => 'x'); return 'renamed'; });
mcp.prompt('review', { arguments: { text: { required: true } } }, ({ text }) => `Review ${text}`);
mcp.resource('totals://{factor}', { name: 'totals' }, (uri, { factor }) => factor);
1
"""


async def person(context, params):
    from mcp import types

    assert params.message == "How many?", params
    return types.ElicitResult(action="accept", content={"n": 3})


async def model(context, params):
    from mcp import types

    return types.CreateMessageResult(role="assistant", content=types.TextContent(type="text", text="mouse"), model="m")


async def served(client):
    """What the functions do for a client of any era."""
    answer = await client.call_tool("order", {})
    assert answer.content[0].text == "accept 3 mouse", answer
    if [prompt.name for prompt in (await client.list_prompts()).prompts] == ["review"]:
        prompt = await client.get_prompt("review", {"text": "x"})
        assert prompt.messages[0].content.text == "Review x", prompt
    templates = await client.list_resource_templates()
    assert "totals" in [template.name for template in (getattr(templates, "resource_templates", None) or templates.resourceTemplates)], templates
    read = await client.read_resource("totals://7")
    assert read.contents[0].text == "7", read


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


def kernel(url):
    """Jupyter's own tests of a kernel, through a gateway: they make theirs on this machine, and wait for answers without asyncio."""
    import unittest

    import jupyter_kernel_test
    from jupyter_client.utils import run_sync
    from jupyter_server.gateway.gateway_client import GatewayClient
    from jupyter_server.gateway.managers import GatewayKernelClient, GatewayKernelManager

    GatewayClient.instance().url = url

    class Client(GatewayKernelClient):
        def get_shell_msg(self, *args, **kwargs):
            return run_sync(super().get_shell_msg)(*args, **kwargs)

    class Door(jupyter_kernel_test.KernelTests):
        kernel_name = "dormouse"
        language_name = "typescript"
        file_extension = ".ts"
        code_hello_world = "console.log('hello, world')"
        code_stderr = "console.error('no')"
        completion_samples = [
            {"text": "JSON.pa", "matches": {"parse"}},
            {"text": "const widgets = [1]; widge", "matches": {"widgets"}},
            {"text": "nothing.like.this", "matches": set()},
        ]
        complete_code_samples = ["1 + 1", "function f(): number { return 1 }", "const text = 'a {'"]
        incomplete_code_samples = ["function f() {", "const list = [1,", "`open"]
        invalid_code_samples = ["const = 1", "1 +* 2"]
        code_generate_error = "null.x"
        code_execute_result = [
            {"code": "var widgets = 6 * 7; widgets", "result": "42"},
            {"code": "[1, 2]", "mime": "application/json"},
        ]
        code_display_data = [{"code": "display.html('<b>bold</b>')", "mime": "text/html"}]
        code_history_pattern = "var widgets*"
        supported_history_operations = ("tail", "range", "search")
        code_inspect_sample = "widgets"

        @classmethod
        def setUpClass(cls):
            cls.km = GatewayKernelManager()
            run_sync(cls.km.start_kernel)(kernel_name=cls.kernel_name)
            cls.kc = Client(kernel_id=cls.km.kernel_id)
            run_sync(cls.kc.start_channels)()
            # What completion and inspection look at.
            cls.kc.execute(cls.code_execute_result[0]["code"])
            cls.kc.get_shell_msg(timeout=60)

        @classmethod
        def tearDownClass(cls):
            cls.kc.stop_channels()
            run_sync(cls.km.shutdown_kernel)()

    result = unittest.TextTestRunner(stream=sys.stdout).run(unittest.defaultTestLoader.loadTestsFromTestCase(Door))
    skipped = sorted(test.id().split(".")[-1] for test, _ in result.skipped)
    assert result.wasSuccessful() and skipped == ["test_clear_output", "test_pager"], skipped


async def socket(url):
    import json

    from websockets.asyncio.client import connect

    base = url.replace("http://", "ws://")

    async def ask(door, **frame):
        await door.send(json.dumps(frame))
        return json.loads(await door.recv())

    async with connect(base + "/ws?id=python") as door:
        made = await ask(door, t="create", id=1)
        assert made["ok"] and made["name"] == "python", made
        cell = await ask(door, t="eval", id="a", src="let n = 41; console.log('hi'); n + 1")
        assert (cell["id"], cell["value"], cell["console"][0]["text"]) == ("a", 42, "hi"), cell
        assert (await ask(door, t="evict", id=2))["state"] == "Hibernated"
        await (await door.ping())
    # The heap is there for the next connection, and events come where they are asked for.
    path = "/v1/namespaces/default/sessions/python/ws"
    async with connect(base + path, subprotocols=["dormouse.v1"]) as door:
        assert door.subprotocol == "dormouse.v1", door.subprotocol
        heard = [await ask(door, t="eval", id=3, code="console.log('again'); n")]
        while heard[-1]["t"] == "event":
            heard.append(json.loads(await door.recv()))
        assert any(it["event"]["payload"].get("text") == "again" for it in heard[:-1] if it["event"]["type"] == "log"), heard
        assert heard[-1]["value"] == 41, heard[-1]


url, name = sys.argv[1:]
if name in ("mcp", "stdio", "socket"):
    asyncio.run({"mcp": mcp, "stdio": stdio, "socket": socket}[name](url))
else:
    {"jupyter": jupyter, "kernel": kernel}[name](url)
print("ok")
