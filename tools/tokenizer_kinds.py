"""Tokenizers of all kinds that tokenizer.json knows, trained on a few sentences or on files: for the goldens
(tokenizer_goldens.py) and for comparisons (tokenizer_compare.py)."""
import base64
import json
import struct

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

# The first article of the Universal Declaration of Human Rights, which is free for all, and some code and signs.
SENTENCES = [
    "All human beings are born free and equal in dignity and rights. They are endowed with reason and "
    "conscience and should act towards one another in a spirit of brotherhood.",
    "Tous les êtres humains naissent libres et égaux en dignité et en droits. "
    "Ils sont doués de raison et de conscience.",
    "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und Gewissen begabt.",
    "Todos los seres humanos nacen libres e iguales en dignidad y derechos.",
    "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
    "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。",
    "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
    "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق.",
    "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
    "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền.",
    "மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்.",
    "ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით.",
    "def f(x, y=3):\n    return x ** 2 + y  # don't we've they'll I'm he's 12345 67.8e-9\n\n\tif x != y: "
    "print('  ok  ')",
    "Füße ﬁne ｆｕｌｌ ½ ² Å ﷺ 😀👍🏽👨‍👩‍👧 e\u0301 o\u0323\u0302 ①②③ IV Ⅳ ٣٤٥ \u00a0\u3000\u2028 \u200b\ufeff — “quotes” …",
]

GPT2 = "<|endoftext|>"
CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)
QWEN2 = CL100K.replace("{1,3}", "")
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)


def bpe(tokenizer, texts, size, alphabet=(), special=(), **more):
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=list(alphabet), special_tokens=list(special), show_progress=False, **more
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


BYTES = pre_tokenizers.ByteLevel.alphabet()


def byte_level(texts, size, pre, special, norm=None, **options):
    t = Tokenizer(models.BPE(**options))
    if norm:
        t.normalizer = norm
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return bpe(t, texts, size, BYTES, special)


def split_bytes(pattern):
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )


def edit(tokenizer, change):
    """The same tokenizer with its file changed: for what the Python side has no door to."""
    file = json.loads(tokenizer.to_str())
    change(file)
    return Tokenizer.from_str(json.dumps(file))


def gpt2(texts, size):
    return byte_level(texts, size, pre_tokenizers.ByteLevel(add_prefix_space=False), [GPT2])


def roberta(texts, size):
    t = byte_level(texts, size, pre_tokenizers.ByteLevel(add_prefix_space=True), ["<s>", "<pad>", "</s>", "<unk>"])
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    t.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    t.add_tokens([AddedToken("rights", single_word=True), AddedToken(" équal", rstrip=True), "born free"])
    return t


def llama3(texts, size):
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"] + ["<|reserved_%d|>" % i for i in range(12)]
    t = byte_level(texts, size, split_bytes(CL100K), [], ignore_merges=True)
    t.add_special_tokens(names)
    template = processors.TemplateProcessing(
        "<|begin_of_text|> $A", "<|begin_of_text|> $A $B", [(names[0], t.token_to_id(names[0]))]
    )
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])

    def change(file):
        file["model"]["merges"] = [" ".join(m) for m in file["model"]["merges"]]

    return edit(t, change)


def qwen2(texts, size):
    t = byte_level(texts, size, split_bytes(QWEN2), [], normalizers.NFC())
    t.add_special_tokens([GPT2, "<|im_start|>", "<|im_end|>"])
    t.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("Åland", normalized=True)])
    return t


def o200k(texts, size):
    return byte_level(texts, size, split_bytes(O200K), [GPT2])


def deepseek(texts, size):
    parts = [pre_tokenizers.Split(Regex(p), "isolated") for p in (r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK)]
    return byte_level(
        texts, size, pre_tokenizers.Sequence(parts + [pre_tokenizers.ByteLevel(False, use_regex=False)]), [GPT2]
    )


def metaspace_decoder():
    return decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )


def llama2(texts, size):
    """Trained on words, but used without any pre-tokenizer, as that model is."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)]
    bpe(t, texts, size + 256, special=special, limit_alphabet=150)
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.pre_tokenizer = None
    t.decoder = metaspace_decoder()
    t.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s>:1 $B:1", [("<s>", 1)])
    return edit(t, lambda f: f.__setitem__("added_tokens", f["added_tokens"][:3]))


def gemma(texts, size):
    t = llama2(texts, size)
    t.normalizer = normalizers.Replace(" ", "▁")
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    t.add_tokens([AddedToken("\n\n", normalized=False), AddedToken("<unused0>", normalized=False), "▁▁▁"])
    return t


def llama2_first(texts, size):
    """With bytes missing, so that unknown characters are seen, and a blank before the first word alone."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    t.decoder = decoders.Metaspace(prepend_scheme="first")
    bpe(t, texts, size, special=["<unk>", "<s>"], limit_alphabet=60)
    return t


def clip(texts, size):
    t = Tokenizer(models.BPE(unk_token=GPT2, end_of_word_suffix="</w>", continuing_subword_prefix=""))
    t.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    words = Regex(r"""'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+""")
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(words, "removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    t.decoder = decoders.BPEDecoder("</w>")
    bpe(t, texts, size, BYTES, ["<|startoftext|>", GPT2], end_of_word_suffix="</w>")
    t.post_processor = processors.BertProcessing((GPT2, 1), ("<|startoftext|>", 0))
    return t


def prefix(texts, size):
    t = Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##"))
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_previous"),
         pre_tokenizers.Digits(individual_digits=False)]
    )
    t.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.NFKD(), normalizers.StripAccents()])
    t.decoder = decoders.WordPiece("##", cleanup=False)
    return bpe(t, texts, size, special=["[UNK]"], continuing_subword_prefix="##", limit_alphabet=100)


def bert(texts, size):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False)
    t.train_from_iterator(texts, trainer)
    t.post_processor = processors.TemplateProcessing(
        "[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)]
    )
    t.enable_truncation(64)
    return t


def bert_cased(texts, size):
    t = bert(texts, size)
    t.normalizer = normalizers.BertNormalizer(lowercase=False, handle_chinese_chars=False)
    t.enable_truncation(40, direction="left")
    t.enable_padding(pad_id=0, length=16, pad_to_multiple_of=8)
    return t


def unigram(texts, size, **more):
    trainer = trainers.UnigramTrainer(
        vocab_size=size, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False, **more
    )
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(texts, trainer)
    return t


def darts(words):
    """A double array of {bytes: value} in Darts' form."""
    units, used = {0: 0}, {0}

    def fill(at, keys, depth):
        labels = sorted({k[depth] if len(k) > depth else 0 for k in keys})
        offset = 1
        while True:
            base = at ^ offset
            if offset < 1 << 21 and all((base ^ c) not in used for c in labels):
                break
            offset += 1
        units[at] |= offset << 10 | (1 << 8 if labels[0] == 0 else 0)
        for c in labels:
            used.add(base ^ c)
            units[base ^ c] = c
        for c in labels:
            inside = [k for k in keys if (k[depth] if len(k) > depth else 0) == c]
            if c == 0:
                units[base] = words[inside[0]] | 1 << 31
            else:
                fill(base ^ c, inside, depth + 1)

    fill(0, sorted(words), 0)
    return [units.get(i, 0) for i in range(max(units) + 1 + 256)]


def charsmap():
    """A small map as sentencepiece makes them: wide letters, ligatures, signs that go, marks that join."""
    pairs = {"\t": " ", "\n": " ", "\u00a0": " ", "\u3000": " ", "\u200b": "", "\ufeff": "", "ﬁ": "fi", "ﬂ": "fl"}
    pairs.update({"½": "1⁄2", "²": "2", "…": "...", "①": "1", "②": "2", "Ⅳ": "IV", "ﷺ": "صلى", "e\u0301": "é"})
    pairs.update({"o\u0323": "ọ", "a\u0300": "à", "Å": "Å", "Ａ": "A", "ｆ": "f", "ｕ": "u", "ｌ": "l", "！": "!"})
    pairs.update({"，": ",", "か\u3099": "が"})
    texts, places = b"", {}
    for key, value in pairs.items():
        places[key.encode()] = len(texts)
        texts += value.encode() + b"\0"
    units = darts(places)
    trie = struct.pack("<%dI" % len(units), *units)
    return base64.b64encode(struct.pack("<I", len(trie)) + trie + texts).decode()


def t5(texts, size):
    t = unigram(texts, size)
    t.add_special_tokens(["<extra_id_%d>" % i for i in range(5)])
    t.post_processor = processors.TemplateProcessing("$A </s>", "$A </s> $B </s>", [("</s>", 1)])

    def change(file):
        file["normalizer"] = {"type": "Sequence", "normalizers": [
            {"type": "Precompiled", "precompiled_charsmap": charsmap()},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]}

    return edit(t, change)


def xlmr(texts, size):
    t = unigram(texts, size)
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    return t


def albert_bytes(texts, size):
    """A Unigram whose unknown characters are bytes; the bytes are part of the vocabulary."""
    t = unigram(texts, size)

    def change(file):
        model = file["model"]
        model["vocab"] += [["<0x%02X>" % i, -20.0] for i in range(256)]
        model["byte_fallback"] = True
        file["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
            {"type": "UnicodeScripts"},
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": True}]}
        file["decoder"] = json.loads(metaspace_decoder().__getstate__())

    return edit(t, change)


def word_level(texts, size):
    t = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    t.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t.train_from_iterator(
        texts, trainers.WordLevelTrainer(vocab_size=size, special_tokens=["[UNK]"], show_progress=False)
    )
    t.add_tokens([AddedToken("HUMAN", single_word=True), AddedToken("ÉGAUX", lstrip=True, rstrip=True)])
    return t


def characters(texts, size):
    t = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    t.normalizer = normalizers.Strip(left=True, right=False)
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.CharDelimiterSplit("e"), pre_tokenizers.Digits(individual_digits=True),
         pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Split("an", "merged_with_next"),
         pre_tokenizers.FixedLength(2)]
    )
    t.train_from_iterator(
        texts, trainers.WordLevelTrainer(vocab_size=size, special_tokens=["[UNK]"], show_progress=False)
    )
    return t


def letters_first(texts, size):
    """Bytes are written as letters by the normalizer, and cut afterwards."""
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.ByteLevel()
    t.pre_tokenizer = pre_tokenizers.Split(Regex("Ġ?[^Ġ]+|Ġ+"), "isolated")
    t.decoder = decoders.ByteLevel()
    bpe(t, texts, size, BYTES, [GPT2])
    t.add_tokens([AddedToken("être", normalized=True)])
    return t


KINDS = {f.__name__: f for f in (
    gpt2, roberta, llama3, qwen2, o200k, deepseek, llama2, gemma, llama2_first, clip, prefix, bert, bert_cased, t5,
    xlmr, albert_bytes, word_level, characters, letters_first)}
