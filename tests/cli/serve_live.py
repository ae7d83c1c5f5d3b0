"""snug serve as the package `openai` sees it: serve_live.py PROGRAM. Exit code 1 where something is wrong."""
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import openai

TEMPLATE = ("{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
            "{% if tools %}{{ tools | length }} tools {% endif %}<assistant>")


def make_model(program, folder):
    os.mkdir(folder + "/made")
    with open(folder + "/made/config.json", "w") as file:
        json.dump({"model_type": "gpt2", "vocab_size": 256, "n_positions": 128, "n_embd": 16, "n_layer": 2,
                   "n_head": 2}, file)
    with open(folder + "/text", "w") as file:
        file.write("A quick brown fox. " * 3000)
    subprocess.run([program, "train", "made", "--data", "text", "--context", "32", "--batch", "4", "--steps",
                    "20", "--lr", "1e-2", "--out", "model", "--quiet"], cwd=folder, check=True)
    with open(folder + "/model/chat_template.jinja", "w") as file:
        file.write(TEMPLATE)


def start(program, folder):
    said = open(folder + "/said", "w")
    server = subprocess.Popen([program, "serve", "model", "--port", "0", "--threads", "1", "--api-key-file", "key",
                               "--max-num-seqs", "2", "--max-queue", "1"], cwd=folder, stderr=said)
    for _ in range(2000):
        found = re.search(r"http://127\.0\.0\.1:(\d+)/v1", open(folder + "/said").read())
        if found:
            return server, int(found[1])
        if server.poll() is not None:
            break
        time.sleep(0.01)
    words = open(folder + "/said").read()
    if "without libmicrohttpd" in words:
        print("skipped: built without libmicrohttpd")
        sys.exit(0)
    sys.exit("the server does not start: " + words)


def texts(client):
    whole = client.completions.create(model="model", prompt="A quick", max_tokens=20, temperature=0)
    assert whole.usage.completion_tokens == 20 and whole.usage.prompt_tokens == 7
    assert whole.choices[0].finish_reason == "length"
    parts = list(client.completions.create(model="model", prompt="A quick", max_tokens=20, temperature=0,
                                           stream=True, stream_options={"include_usage": True}))
    assert "".join(p.choices[0].text for p in parts if p.choices) == whole.choices[0].text
    assert parts[-1].usage.total_tokens == 27 and not parts[-1].choices
    ids = client.completions.create(model="model", prompt=[65, 32, 113], max_tokens=1)
    assert ids.usage.prompt_tokens == 3
    again = [client.completions.create(model="model", prompt="A", max_tokens=30, seed=7).choices[0].text
             for _ in range(2)]
    assert again[0] == again[1]


def vectors(client):
    """The package asks for base64 by itself."""
    words = ["A quick", "brown fox", "A quick"]
    several = client.embeddings.create(model="model", input=words)
    assert [d.index for d in several.data] == [0, 1, 2] and len(several.data[0].embedding) == 16
    assert several.data[0].embedding == several.data[2].embedding != several.data[1].embedding
    assert several.usage.prompt_tokens == several.usage.total_tokens == 23
    numbers = client.embeddings.create(model="model", input=words[1], encoding_format="float")
    assert max(abs(a - b) for a, b in zip(numbers.data[0].embedding, several.data[1].embedding)) < 1e-6


def chats(client):
    asked = dict(model="model", messages=[{"role": "user", "content": "Hi"}], max_completion_tokens=12,
                 temperature=0)
    whole = client.chat.completions.create(**asked)
    assert whole.choices[0].message.role == "assistant" and whole.usage.completion_tokens == 12
    parts = list(client.chat.completions.create(**asked, stream=True))
    assert parts[0].choices[0].delta.role == "assistant"
    assert "".join(p.choices[0].delta.content or "" for p in parts) == whole.choices[0].message.content
    assert parts[-1].choices[0].finish_reason == "length"
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    with_tools = client.chat.completions.create(**asked, tools=[tool])
    assert with_tools.usage.prompt_tokens == whole.usage.prompt_tokens + len("1 tools ")


def expect(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError("no " + kind.__name__)


def errors(client, port):
    create = client.completions.create
    wrong = expect(openai.BadRequestError, lambda: create(model="model", prompt="a", max_tokens=1000))
    assert wrong.param == "max_tokens" and wrong.type == "invalid_request_error", wrong.body
    unknown = expect(openai.BadRequestError, lambda: create(model="model", prompt="a",
                                                            extra_body={"flavour": "sweet"}))
    assert unknown.param == "flavour"
    expect(openai.NotFoundError, lambda: create(model="another", prompt="a"))
    other = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="wrong", max_retries=0)
    expect(openai.AuthenticationError, lambda: other.models.list())


def leaving(client):
    for _ in range(5):
        stream = client.completions.create(model="model", prompt="A", max_tokens=120, stream=True)
        for _, _part in zip(range(3), stream):
            pass
        stream.close()
    streams = [client.completions.create(model="model", prompt="A", max_tokens=100, stream=True)
               for _ in range(2)]
    for stream in streams:
        assert sum(1 for _ in stream) > 0


def main():
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        make_model(program, folder)
        with open(folder + "/key", "w") as file:
            file.write("secret\n")
        server, port = start(program, folder)
        try:
            client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="secret", max_retries=8)
            assert [m.id for m in client.models.list()] == ["model"]
            texts(client)
            vectors(client)
            chats(client)
            errors(client, port)
            leaving(client)
        finally:
            server.terminate()
        assert server.wait(60) == 0
        end = re.search(r"(\d+) requests: (\d+) answered, (\d+) left", open(folder + "/said").read())
        assert int(end[1]) == int(end[2]) + int(end[3]), end[0]
    print("openai", openai.__version__, "was answered")


main()
