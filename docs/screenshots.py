"""Makes the pictures of tasks/taste_test.md, of its own code: `python docs/screenshots.py`.

It needs Chromium, chromedriver, selenium, httpx and Pillow.
"""

from __future__ import annotations

import base64
import io
import math
import os
import random
import re
import shutil
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from PIL import Image
from selenium import webdriver

DOCS = Path(__file__).resolve().parent
ANSWERS = 6


def serve() -> tuple[dict[str, Any], str]:
    """Run the code on the page up to the application, and serve it; also its address."""
    page = (DOCS / "tasks" / "taste_test.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for code in re.findall(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)[:3]:
        exec(code, names)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(names["app"], log_level="error"))
    run = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    run.start()
    return names, f"http://127.0.0.1:{listening.getsockname()[1]}"


def answer(names: dict[str, Any], base: str) -> None:
    """Have everybody answer some questions, in turns."""
    recipes = dict(zip(names["table"]["cup"], names["recipes"], strict=True))
    invitation = names["app"].state.desk.store.invitation
    people = []
    for name in names["people"]:
        client = httpx.Client(base_url=base, timeout=60)
        client.post("/api/join", json={"invitation": invitation, "name": name})
        people.append(client)
    chance = random.Random(0)
    for _ in range(ANSWERS):
        for number, client in enumerate(people):
            while (question := client.get("/api/question").json()["question"]) is None:
                time.sleep(0.1)
            liking = []
            for item in question["items"]:
                sugar, lemon = recipes[f"{item['text'].split()[1]}.txt"]
                liking.append(-(((sugar - 70) / 20) ** 2) - ((lemon - 30 - 3 * number) / 20) ** 2)
            first = 1.0 / (1.0 + math.exp(2.0 * (liking[1] - liking[0])))
            word = "1" if chance.random() < first else "2"
            said = {"query": question["query"], "answer": word, "seconds": 4.0}
            client.post("/api/answer", json=said)


def take(browser: Any, name: str, width: int, height: int) -> None:
    """Save a picture of the page in a window of this size."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    time.sleep(1.0)
    taken = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    picture = Image.open(io.BytesIO(base64.b64decode(taken["data"]))).convert("RGB")
    picture.quantize(64).save(DOCS / "_static" / name, optimize=True)


def main() -> None:
    """Make both pictures."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        names, base = serve()
        desk = names["app"].state.desk
        answer(names, base)
        desk.stop()  # all answers are told
        desk._work_out()
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        name = "lemonade.local"  # as of a computer in the network
        rule = f"host-resolver-rules=MAP {name} 127.0.0.1"
        for flag in ("headless", "no-sandbox", "hide-scrollbars", rule):
            options.add_argument(f"--{flag}")
        browser = webdriver.Chrome(
            options=options, service=webdriver.ChromeService(shutil.which("chromedriver"))
        )
        base = base.replace("127.0.0.1", name)
        browser.get(f"{base}/owner/{desk.store.owner}")
        take(browser, "taste_test_owner.png", 1000, 1250)
        browser.get(f"{base}/join/{desk.store.invitation}")
        browser.find_element("id", "name").send_keys("Ida")
        browser.find_element("css selector", "button.main").click()
        time.sleep(2.0)
        take(browser, "taste_test_question.png", 390, 520)
        browser.quit()
        os.chdir(DOCS)


if __name__ == "__main__":
    main()
