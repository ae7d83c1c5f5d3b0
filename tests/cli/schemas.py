"""Answers by drawn schemas, judged by the package jsonschema: schemas.py PROGRAM. Exit code 1 where something is wrong.

A tiny model that has learned nothing answers: whatever its tokens are, what has ended is a value of its schema, and
what the server does not know is refused by its name."""
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import jsonschema

SCHEMAS, ENDED = 150, 100  # that are drawn; of whose answers at least so many must have ended
BLANKS = {str(ord(c)): -100 for c in " \t\r\n"}
UNKNOWN = {"pattern": "a+", "minimum": 3, "maximum": 9, "exclusiveMinimum": 1, "multipleOf": 2, "format": "date",
           "allOf": [{"type": "string"}], "oneOf": [{"type": "string"}], "not": {"type": "null"},
           "patternProperties": {"a": {}}, "uniqueItems": True, "contains": {}, "prefixItems": [{}],
           "minProperties": 1, "if": {}, "propertyNames": {}, "dependentRequired": {}}


def make_model(program, folder):
    os.mkdir(folder + "/made")
    with open(folder + "/made/config.json", "w") as file:
        json.dump({"model_type": "gpt2", "vocab_size": 256, "n_positions": 512, "n_embd": 16, "n_layer": 2,
                   "n_head": 2}, file)
    with open(folder + "/text", "w") as file:
        file.write("A quick brown fox. " * 300)
    subprocess.run([program, "train", "made", "--data", "text", "--context", "32", "--batch", "2", "--steps", "1",
                    "--out", "model", "--quiet"], cwd=folder, check=True)


def start(program, folder):
    said = open(folder + "/said", "w")
    server = subprocess.Popen([program, "serve", "model", "--port", "0", "--threads", "1"], cwd=folder, stderr=said)
    for _ in range(2000):
        words = open(folder + "/said").read()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/v1", words)
        if found:
            return server, int(found[1])
        if server.poll() is not None:
            break
        time.sleep(0.01)
    if "without libmicrohttpd" in words:
        print("skipped: built without libmicrohttpd")
        sys.exit(0)
    sys.exit("the server does not start: " + words)


def ask(port, schema, more=None):
    """The status and the answer, or its error's sentence."""
    body = {"prompt": "fox", "max_tokens": 480, "logit_bias": BLANKS,
            "response_format": {"type": "json_schema", "json_schema": {"name": "it", "schema": schema}}, **(more or {})}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request) as answer:
            return 200, json.load(answer)["choices"][0]
    except urllib.error.HTTPError as error:
        said = json.load(error)["error"]
        assert said["param"] == "response_format", said
        return error.code, said["message"]


def literal(draw):
    return draw.choice([None, True, False, 0, -17, 2.5, 1e30, "", "fox", "a \"b\"\n\u00e9\U0001f600"])


def schema(draw, depth):
    """One that the server knows."""
    kinds = ["string", "integer", "number", "boolean", "null", "enum", "const", "several"]
    if depth:
        kinds += ["object", "object", "object", "array", "array", "anyOf", "ref"]
    kind = draw.choice(kinds)
    if kind == "string":
        least = draw.randrange(4)
        return {"type": "string", "minLength": least, "maxLength": least + draw.randrange(9)}
    if kind == "enum":
        return {"enum": [literal(draw) for _ in range(1 + draw.randrange(4))]}
    if kind == "const":
        return {"const": literal(draw)}
    if kind == "several":
        return {"type": draw.sample(["integer", "boolean", "null"], 2)}
    if kind == "anyOf":
        return {"anyOf": [schema(draw, depth - 1) for _ in range(1 + draw.randrange(3))]}
    if kind == "ref":
        return {"$ref": "#/$defs/" + draw.choice("xy")}
    if kind == "array":
        least = draw.randrange(3)
        return {"type": "array", "items": schema(draw, depth - 1), "minItems": least,
                "maxItems": least + draw.randrange(3)}
    if kind == "object":
        names = draw.sample(["a", "b", "name", "\u00e9\"", "", "x y"], draw.randrange(4))
        return {"type": "object", "properties": {n: schema(draw, depth - 1) for n in names},
                "required": [n for n in names if draw.randrange(2)], "additionalProperties": False}
    return {"type": kind}


def whole(draw):
    made = schema(draw, 3)
    made["$defs"] = {"x": schema(draw, 0), "y": {"type": "array", "maxItems": 1, "items": {"$ref": "#/$defs/x"}}}
    return made


def judge(port):
    ended = 0
    for seed in range(SCHEMAS):
        draw = random.Random(seed)
        asked = whole(draw)
        jsonschema.Draft202012Validator.check_schema(asked)
        code, answer = ask(port, asked, {"seed": seed, "temperature": draw.choice([0, 0.7, 1.5])})
        assert code == 200, (asked, answer)
        if answer["finish_reason"] == "length":
            continue
        assert answer["finish_reason"] == "stop", answer
        try:
            value = json.loads(answer["text"])
            jsonschema.Draft202012Validator(asked).validate(value)
        except (ValueError, jsonschema.ValidationError) as error:
            raise AssertionError(f"seed {seed}: {answer['text']!r} is none of {json.dumps(asked)}") from error
        ended += 1
    assert ended >= ENDED, ended
    return ended


def refuse(port):
    """Each of them, alone and deep within one that is known."""
    for name, value in UNKNOWN.items():
        for asked in ({"type": "string", name: value},
                      {"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}, {name: value}]}},
                       "additionalProperties": False}):
            code, sentence = ask(port, asked)
            assert code == 400 and f"'{name}' in the schema is not known" in sentence, (name, code, sentence)
    for asked in ({"const": []}, {"enum": [1, {"a": 2}]}, {"type": "array", "items": {"const": [1]}}):
        code, sentence = ask(port, asked)
        assert code == 400 and "with lists or objects are not known" in sentence, (asked, code, sentence)


def main():
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        make_model(program, folder)
        server, port = start(program, folder)
        try:
            refuse(port)
            ended = judge(port)
        finally:
            server.terminate()
        assert server.wait(60) == 0
    print(f"{ended} of {SCHEMAS} answers have ended, and are values of their schemas")


main()
