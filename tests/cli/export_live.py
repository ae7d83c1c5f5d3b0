"""Trains small models that have a tokenizer, and adapters beside them, and gives what was written to those it was
written for: AutoTokenizer, AutoModelForCausalLM, pipeline and PEFT, and as GGUF to llama.cpp where llama_cpp is
installed. All must draw the same 100 tokens after a prompt as snug generate does. Called by test_export_live.sh."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
import peft
import tokenizers
import torch
import transformers
from tokenizers import decoders, pre_tokenizers, trainers

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SNUG = os.path.abspath(sys.argv[1])
PROMPT = "Subject to the terms and conditions"
TOKENS = 100
NAMES = dict(bos_token="<|begin|>", eos_token="<|end|>", pad_token="<|pad|>")
CHAT = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


def expect(is_so, what):
    if not is_so:
        sys.exit(what)


def snug(*arguments):
    r = subprocess.run([SNUG, *arguments], capture_output=True)
    expect(r.returncode == 0, f"snug {' '.join(arguments)}: {r.stderr.decode()}")
    return r.stdout


def generated(*arguments):
    line = snug("generate", *arguments, "--prompt", PROMPT, "--temperature", "0", "--tokens", str(TOKENS), "--json")
    return json.loads(line)["text"]


def corpus():
    """A text that stays as it is, and is learned by heart: then no two tokens are as likely."""
    return open(ROOT + "/LICENSE", encoding="utf-8").read() * 40


def make_tokenizer(folder, text):
    """BPE of bytes, with a token before each text."""
    t = tokenizers.Tokenizer(tokenizers.models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = list(NAMES.values())
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=special, initial_alphabet=alphabet)
    t.train_from_iterator([text], trainer)
    begin = t.token_to_id(NAMES["bos_token"])
    t.post_processor = tokenizers.processors.TemplateProcessing(
        single=NAMES["bos_token"] + " $A", special_tokens=[(NAMES["bos_token"], begin)]
    )
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=t, chat_template=CHAT, **NAMES)
    fast.save_pretrained(folder)
    return fast


def configurations(t):
    ids = dict(vocab_size=512, bos_token_id=t.bos_token_id, eos_token_id=t.eos_token_id, pad_token_id=t.pad_token_id)
    sizes = dict(hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4)
    sizes.update(num_key_value_heads=2, max_position_embeddings=256)
    yield "small-gpt2", transformers.GPT2Config(n_embd=64, n_layer=2, n_head=4, n_positions=256, **ids)
    yield "small-llama", transformers.LlamaConfig(**sizes, **ids)
    yield "small-qwen3", transformers.Qwen3Config(**sizes, head_dim=32, tie_word_embeddings=True, **ids)


def drawn(model, t):
    """The tokens that transformers draws, as text; and what was before them."""
    ids = t(PROMPT, return_tensors="pt")
    with torch.no_grad():
        out = model.eval().generate(**ids, max_new_tokens=TOKENS, do_sample=False, pad_token_id=t.pad_token_id)
    return t.decode(out[0, ids["input_ids"].shape[1] :], skip_special_tokens=True)


def same(what, is_, should):
    expect(len(should) > 60, f"{what}: snug ends after {should!r}")
    expect(is_ == should, f"{what} draws {is_!r}, and snug {should!r}")
    print(f"{what}: the same {TOKENS} tokens")


def check_folder(name, folder):
    t = transformers.AutoTokenizer.from_pretrained(folder)
    expect(t.eos_token == NAMES["eos_token"] and t.chat_template == CHAT, f"{folder}: its tokenizer lost something")
    expect(t.apply_chat_template([dict(role="user", content="hi")], tokenize=False) == "user: hi\n", "the template")
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        expect(not info[kind], f"{folder}: {kind} {info[kind]}")
    expect(model.config.eos_token_id == t.eos_token_id, f"{folder}: the end's id is {model.config.eos_token_id}")
    should = generated(folder)
    same(f"{name}: transformers", drawn(model, t), should)
    pipe = transformers.pipeline("text-generation", model=folder)
    said = pipe(PROMPT, max_new_tokens=TOKENS, do_sample=False, return_full_text=False)[0]["generated_text"]
    same(f"{name}: pipeline", said, should)
    return model, t


def check_adapter(name, model, t, folder, adapter):
    expect(json.load(open(adapter + "/adapter_config.json"))["base_model_name_or_path"] == folder, "the base's name")
    wrapped = peft.PeftModel.from_pretrained(model, adapter)
    should = generated(folder, "--adapter", adapter)
    same(f"{name}: PEFT", drawn(wrapped, t), should)
    auto = peft.AutoPeftModelForCausalLM.from_pretrained(adapter)
    same(f"{name}: PEFT by the adapter's folder alone", drawn(auto, t), should)
    expect(should != generated(folder), f"{name}: the adapter changes nothing")


def llama_cpp_draws(path, size):
    import llama_cpp

    llama = llama_cpp.Llama(path, n_ctx=size, n_threads=1, verbose=False, use_mmap=False, type_k=0, type_v=0)
    out = llama.create_completion(PROMPT, max_tokens=TOKENS, temperature=0, repeat_penalty=1.0)
    return out["choices"][0]["text"]


def check_gguf(name, folder, size=256):
    try:
        import llama_cpp  # noqa: F401
    except ImportError:
        print(f"{name}: no llama_cpp here, so its file is not looked at")
        return
    should = generated(folder)
    for kind in ("f32", "f16"):
        path = f"{folder}.{kind}.gguf"
        snug("export", folder, "--to", "gguf", "--dtype", kind, "--out", path)
        same(f"{name}: llama.cpp, {kind}", llama_cpp_draws(path, size), should)


def write_ids(t, text, path):
    ids = torch.tensor(t(text, add_special_tokens=False)["input_ids"]).to(torch.int16)
    ids.numpy().astype("<u2").tofile(path)


def check_family(name, configuration, text):
    made = f"made-{name}"
    t = make_tokenizer(made, text)
    configuration.save_pretrained(made)
    write_ids(t, text, "ids.u16")
    write_ids(t, text.upper(), "others.u16")
    more = ["--data-kind", "u16", "--batch", "8", "--context", "64", "--quiet"]
    snug("train", made, "--out", name, "--steps", "150", "--lr", "3e-3", "--data", "ids.u16", *more)
    model, t = check_folder(name, name)
    check_gguf(name, name)
    if name == "small-qwen3":  # adapters lie beside its weights as beside Llama's
        return
    adapter = ["--out", f"{name}-adapter", "--lora", "rank=4", "--steps", "60", "--lr", "1e-2"]
    snug("train", name, *adapter, "--data", "others.u16", *more)
    check_adapter(name, model, t, name, f"{name}-adapter")
    snug("merge", name, "--adapter", f"{name}-adapter", "--out", f"{name}-merged")
    check_folder(f"{name}, merged", f"{name}-merged")
    check_gguf(f"{name}, merged", f"{name}-merged")


def main():
    torch.set_num_threads(1)
    text = corpus()
    folder = tempfile.mkdtemp(prefix="snug-test-")
    os.chdir(folder)
    try:
        with open("book.txt", "w", encoding="utf-8") as book:
            book.write(text)
        for name, configuration in configurations(make_tokenizer("tokens", text)):
            check_family(name, configuration, text)
        book = ["--data", "book.txt", "--context", "128", "--quiet"]
        snug("train", "char-small", "--out", "bytes", "--steps", "60", *book)
        check_gguf("bytes", "bytes", 128)
    finally:
        os.chdir("/")
        shutil.rmtree(folder)


main()
