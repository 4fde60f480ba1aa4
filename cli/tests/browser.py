"""What people see in a browser: `browser.py URL lab|foreign`. Run by `cli/tests/browser.rs` with Chromium, playwright and JupyterLab."""

import asyncio
import contextlib
import http.server
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from playwright.async_api import async_playwright

# Each run of the cell counts in the heap of the session.
CELL = "globalThis.count = (globalThis.count ?? 0) + 1; `run ${count}`"
PATIENCE_MS = 120_000


@contextlib.asynccontextmanager
async def chromium():
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser
        await browser.close()


def free_port():
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return door.getsockname()[1]


@contextlib.contextmanager
def jupyter_lab(url, folder):
    """JupyterLab whose kernels are the gateway's."""
    port = free_port()
    flags = ["--no-browser", "--allow-root", f"--port={port}", "--ServerApp.port_retries=0", "--IdentityProvider.token="]
    environment = {**os.environ, "HOME": folder, "KERNEL_DORMOUSE_SESSION": "s"}
    command = [pathlib.Path(sys.executable).parent / "jupyter", "lab", f"--gateway-url={url}", *flags]
    log = pathlib.Path(folder, "lab.log")
    with log.open("w") as written:
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=written, stderr=subprocess.STDOUT)
    try:
        began = time.monotonic()
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api/status", timeout=5).read()
                break
            except OSError:
                assert server.poll() is None and time.monotonic() - began < PATIENCE_MS / 1000, log.read_text()
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


async def lab(url):
    """A notebook is opened, run, reloaded and run again: the heap of the session counts on."""
    cell = {"cell_type": "code", "id": "one", "execution_count": None, "metadata": {}, "outputs": [], "source": CELL}
    kernel = {"name": "dormouse", "display_name": "Dormouse (TypeScript)", "language": "typescript"}
    notebook = {"cells": [cell], "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        pathlib.Path(folder, "n.ipynb").write_text(json.dumps(notebook))
        with jupyter_lab(url, folder) as at:
            async with chromium() as browser:
                page = await browser.new_page()
                page.set_default_timeout(PATIENCE_MS)
                for count in (1, 2):
                    await page.goto(f"{at}/lab/tree/n.ipynb")
                    await page.locator(".jp-Notebook .cm-content").first.click()
                    # The toolbar says which kernel it is once there is one, and that it is at rest.
                    await page.locator('[data-status="idle"]').first.wait_for()
                    await page.keyboard.press("Control+Enter")
                    await page.locator(".jp-OutputArea-output", has_text=f"run {count}").wait_for()
                    await page.keyboard.press("Control+s")


FOREIGN = """
<script>
const url = new URLSearchParams(location.search).get('url');
const eval_ = url + '/v1/namespaces/default/sessions/s/eval';
const cell = JSON.stringify({code: "globalThis.foreign = true"});
const tries = {
  json: () => fetch(eval_, {method: 'POST', headers: {'content-type': 'application/json'}, body: cell}).then(r => r.status),
  simple: () => fetch(eval_, {method: 'POST', mode: 'no-cors', headers: {'content-type': 'text/plain'}, body: cell}).then(r => r.type),
  read: () => fetch(url + '/v1/namespaces/default/sessions').then(r => r.text()),
  socket: () => new Promise((opened, failed) => {
    const socket = new WebSocket(url.replace('http', 'ws') + '/v1/namespaces/default/sessions/s/ws', ['dormouse.v1']);
    socket.onopen = () => opened('open');
    socket.onerror = () => failed(new Error('no socket'));
  }),
};
window.came = Promise.all(Object.entries(tries).map(async ([name, attempt]) => [name, await attempt().catch(() => 'refused')]));
</script>
"""


async def foreign(url):
    """A page of another origin runs no cell, reads nothing and opens no socket."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(FOREIGN.encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    async with chromium() as browser:
        page = await browser.new_page()
        await page.goto(f"http://127.0.0.1:{server.server_port}/?url={url}")
        came = dict(await page.evaluate("window.came"))
    # What the browser lets a page send without asking is answered with something that the page cannot read.
    assert came == {"json": "refused", "simple": "opaque", "read": "refused", "socket": "refused"}, came


url, name = sys.argv[1:]
asyncio.run({"lab": lab, "foreign": foreign}[name](url))
print("ok")
