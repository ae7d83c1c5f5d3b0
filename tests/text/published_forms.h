/* Chat templates in the forms that published models have, written anew, and what is learned of a chat: which
 * bytes, by hand, and which tokens.
 *
 * The tokens are those of a byte-level tokenizer whose words are in published_words, beside all bytes;
 * `markers` are added to it. A token is learned where one byte of it is. They were written down by the
 * tokenizers library from the bytes that are marked by hand, and then read one by one. */
#pragma once

/* The text with « » around what is learned, worked out by hand. */
typedef struct {
    const char *template;
    const char *const *chat; /* make_chat of test_template.c says how */
    const char *learned;
} learned_answer;

typedef struct {
    learned_answer bytes;
    const char *markers; /* special tokens, with blanks between them */
    const char *tokens;  /* the same with · between tokens; a « or » is no token */
} published_form;

/* "Ġ" is a blank before a word and "Ċ" the end of a line, as such tokenizers write them. */
static const char *const published_words[] = {
    "Hi",    "ĠHi",         "Hello",        "ĠHello",    "Bye",       "ĠBye",  "See",   "ĠSee", "Ġyou",
    "Be",    "Ġkind",       "user",         "assistant", "system",    "model", "final", "ĊĊ",   "USER",
    "ĠUSER", "ASSISTANT",   "ĠASSISTANT",   "You",       "Ġhelp",     "INST",  "SYS",   "</",   "###",
    "Ġ###",  "Instruction", "ĠInstruction", "Response",  "ĠResponse", "<|",    "|>",    "im",   "start",
    "end",   "so",          "hm",           "ĠĊ",        ":Ċ"
};

static const char *const three[] = { "uHi", "aHello", "uBye", "aSee you", NULL };
static const char *const broken[] = { "uHi", "a\nHello", "uBye", "aSee you", NULL };
static const char *const kind[] = { "sBe kind.", "uHi", "aHello", "uBye", "aSee you", NULL };
static const char *const thought[] = { "uHi", "a<think>\nhm\n</think>\n\nHello", "uBye",
                                       "a<think>\nso\n</think>\n\nSee you", NULL };

/* Every message: its role within a head, the content, an end; the prompt is the head of an answer. */
#define EACH(before, head, head_end, end)                                                                    \
    before "{% for m in messages %}" head "{{ m.role }}" head_end "{{ m.content | trim }}" end               \
           "{% endfor %}{% if add_generation_prompt %}" head "assistant" head_end "{% endif %}"

/* The system's words go before the first question. */
#define SYSTEM_FIRST                                                                                         \
    "{% set s = messages[0].content if messages[0].role == 'system' else '' %}"                              \
    "{% for m in messages if m.role != 'system' %}"

/* The thoughts of earlier answers are dropped. */
#define WITHOUT_THOUGHTS                                                                                     \
    "{% set c = m.content %}{% if '</think>' in c and not loop.last %}"                                      \
    "{% set c = c.split('</think>')[-1].lstrip('\n') %}{% endif %}"

static const published_form published_forms[] = {
    /* ChatML; Yi, Hermes, SmolLM, Falcon 3 */
    { .bytes = { EACH("", "<|im_start|>", "\n", "<|im_end|>\n"), kind,
                 "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
                 "<|im_start|>assistant\n«Hello<|im_end|>»\n<|im_start|>user\nBye<|im_end|>\n"
                 "<|im_start|>assistant\n«See you<|im_end|>»\n" },
      .markers = "<|im_start|> <|im_end|>",
      .tokens = "<|im_start|>·system·\n·Be· "
                "kind·.·<|im_end|>·\n·<|im_start|>·user·\n·Hi·<|im_end|>·\n·<|im_start|>"
                "·assistant·\n·«Hello·<|im_end|>»·\n·<|im_start|>·user·\n·Bye·<|im_end|>·\n·<|im_start|>"
                "·assistant·\n·«See· you·<|im_end|>»·\n" },
    /* Qwen 2.5 */
    { .bytes = { "{% if messages[0].role != 'system' %}<|im_start|>system\nYou help.<|im_end|>\n{% endif "
                 "%}" EACH("", "<|im_start|>", "\n", "<|im_end|>\n"),
                 three,
                 "<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
                 "<|im_start|>assistant\n«Hello<|im_end|>»\n<|im_start|>user\nBye<|im_end|>\n"
                 "<|im_start|>assistant\n«See you<|im_end|>»\n" },
      .markers = "<|im_start|> <|im_end|>",
      .tokens = "<|im_start|>·system·\n·You· "
                "help·.·<|im_end|>·\n·<|im_start|>·user·\n·Hi·<|im_end|>·\n·<|im_start|>"
                "·assistant·\n·«Hello·<|im_end|>»·\n·<|im_start|>·user·\n·Bye·<|im_end|>·\n·<|im_start|>"
                "·assistant·\n·«See· you·<|im_end|>»·\n" },
    /* Qwen 3: empty thoughts are written before the last answer */
    { .bytes = { "{% for m in messages %}" WITHOUT_THOUGHTS "<|im_start|>{{ m.role }}\n{% if loop.last and "
                 "m.role == 'assistant' and '</think>' not in c %}"
                 "{{ '<think>\n\n</think>\n\n' }}{% endif %}{{ c }}<|im_end|>\n"
                 "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
                 three,
                 "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n«Hello<|im_end|>»\n<|im_start|>"
                 "user\nBye"
                 "<|im_end|>\n<|im_start|>assistant\n«<think>\n\n</think>\n\nSee you<|im_end|>»\n" },
      .markers = "<|im_start|> <|im_end|> <think> </think>",
      .tokens = "<|im_start|>·user·\n·Hi·<|im_end|>·\n·<|im_start|>·assistant·\n·«Hello·<|im_end|>»·\n·<|im_"
                "start|>·user·\n·Bye·<|im_end|>·\n·<|im_start|>·assistant·\n·«<think>·\n\n·</"
                "think>·\n·\n·See· you·<|im_end|>»·\n" },
    { .bytes = { "{% for m in messages %}" WITHOUT_THOUGHTS "<|im_start|>{{ m.role }}\n{{ c }}<|im_end|>\n"
                 "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
                 thought,
                 "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n«Hello<|im_end|>»\n<|im_start|>"
                 "user\nBye"
                 "<|im_end|>\n<|im_start|>assistant\n«<think>\nso\n</think>\n\nSee you<|im_end|>»\n" },
      .markers = "<|im_start|> <|im_end|> <think> </think>",
      .tokens = "<|im_start|>·user·\n·Hi·<|im_end|>·\n·<|im_start|>·assistant·\n·«Hello·<|im_end|>»·\n·<|im_"
                "start|>·user·\n·Bye·<|im_end|>·\n·<|im_start|>·assistant·\n·«<think>·\n·so·\n·</"
                "think>·\n·\n·See· you·<|im_end|>»·\n" },
    /* Qwen 3.5 and Kimi K2.5: the template writes the thoughts, and the prompt opens them */
    { .bytes = { "{% for m in messages %}<|im_start|>{{ m.role }}\n{% set c = m.content.split('</think>') %}"
                 "{% if c | length > 1 and loop.last %}"
                 "{{ '<think>\n' ~ c[0].split('<think>')[-1].strip() ~ '\n</think>\n\n' }}{% endif %}"
                 "{{ c[-1].strip() }}<|im_end|>\n"
                 "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}",
                 thought,
                 "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n«Hello<|im_end|>»\n<|im_start|>"
                 "user\nBye"
                 "<|im_end|>\n<|im_start|>assistant\n<think>\n«so\n</think>\n\nSee you<|im_end|>»\n" },
      .markers = "<|im_start|> <|im_end|> <think> </think>",
      .tokens = "<|im_start|>·user·\n·Hi·<|im_end|>·\n·<|im_start|>·assistant·\n·«Hello·<|im_end|>»·\n·<|im_"
                "start|>·user·\n·Bye·<|im_end|>·\n·<|im_start|>·assistant·\n·<think>·\n·«so·\n·</"
                "think>·\n·\n·See· you·<|im_end|>»·\n" },
    /* What a message says itself is learned, even where the prompt has said it. */
    { .bytes = { "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
                 "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}",
                 thought,
                 "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n«<think>\nhm\n</"
                 "think>\n\nHello<|im_end|>»\n"
                 "<|im_start|>user\nBye<|im_end|>\n"
                 "<|im_start|>assistant\n«<think>\nso\n</think>\n\nSee you<|im_end|>»\n" },
      .markers = "<|im_start|> <|im_end|> <think> </think>",
      .tokens = "<|im_start|>·user·\n·Hi·<|im_end|>·\n·<|im_start|>·assistant·\n·«<think>·\n·hm·\n·</"
                "think>·\n·\n·Hello·<|im_end|>»·\n·<|im_start|>·user·\n·Bye·<|im_end|>·\n·<|im_start|>"
                "·assistant·\n·«<think>·\n·so·\n·</think>·\n·\n·See· you·<|im_end|>»·\n" },
    /* Llama 2 */
    { .bytes = { SYSTEM_FIRST
                 "{% if m.role == 'user' %}<s>[INST] {% if loop.first and s %}<<SYS>>\n{{ s "
                 "}}\n<</SYS>>\n\n{% "
                 "endif %}"
                 "{{ m.content.strip() }} [/INST]{% else %}{{ ' ' ~ m.content.strip() ~ ' ' ~ eos_token }}{% "
                 "endif %}"
                 "{% endfor %}",
                 kind,
                 "<s>[INST] <<SYS>>\nBe kind.\n<</SYS>>\n\nHi [/INST]« Hello </s>»<s>[INST] Bye [/INST]« See "
                 "you </s>»" },
      .markers = "<s> </s>",
      .tokens = "<s>·[·INST·]· ·<·<·SYS·>·>·\n·Be· kind·.·\n·<·<·/·SYS·>·>·\n·\n·Hi· ·[·/·INST·]·« Hello· "
                "·</s>»·<s>·[·INST·]· Bye· ·[·/·INST·]·« See· you· ·</s>»" },
    /* Llama 3 */
    { .bytes = { EACH("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>"),
                 kind,
                 "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>"
                 "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
                 "<|start_header_id|>assistant<|end_header_id|>\n\n«Hello<|eot_id|>»"
                 "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
                 "<|start_header_id|>assistant<|end_header_id|>\n\n«See you<|eot_id|>»" },
      .markers = "<|begin_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|>",
      .tokens = "<|begin_of_text|>·<|start_header_id|>·system·<|end_header_id|>·\n·\n·Be· "
                "kind·.·<|eot_id|>·<|start_header_id|>·user·<|end_header_id|>·\n·\n·Hi·<|eot_id|>·<|start_"
                "header_id|>·assistant·<|end_header_id|>·\n·\n·«Hello·<|eot_id|>»·<|start_header_id|>·user·<|"
                "end_header_id|>·\n·\n·Bye·<|eot_id|>·<|start_header_id|>·assistant·<|end_header_id|>"
                "·\n·\n·«See· you·<|eot_id|>»" },
    /* Mistral: the system's words come with the last question */
    { .bytes = { "<s>" SYSTEM_FIRST
                 "{% if m.role == 'user' %}[INST] {% if s and m is sameas(messages[-2]) %}{{ s ~ '\n\n' }}{% "
                 "endif %}"
                 "{{ m.content }}[/INST]{% else %} {{ m.content | trim ~ eos_token }}{% endif %}{% endfor %}",
                 kind, "<s>[INST] Hi[/INST]« Hello</s>»[INST] Be kind.\n\nBye[/INST]« See you</s>»" },
      .markers = "<s> </s> [INST] [/INST]",
      .tokens =
          "<s>·[INST]· Hi·[/INST]·« Hello·</s>»·[INST]· ·B·e· kind·.·\n·\n·Bye·[/INST]·« See· you·</s>»" },
    /* Gemma */
    { .bytes = { "<bos>" SYSTEM_FIRST
                 "{{ '<start_of_turn>' ~ ('model' if m.role == 'assistant' else m.role) ~ '\n' }}"
                 "{% if loop.first and s %}{{ s ~ '\n\n' }}{% endif %}{{ m.content | trim ~ "
                 "'<end_of_turn>\n' }}"
                 "{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}",
                 kind,
                 "<bos><start_of_turn>user\nBe "
                 "kind.\n\nHi<end_of_turn>\n<start_of_turn>model\n«Hello<end_of_turn>»\n"
                 "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n«See you<end_of_turn>»\n" },
      .markers = "<bos> <start_of_turn> <end_of_turn>",
      .tokens =
          "<bos>·<start_of_turn>·user·\n·Be· "
          "kind·.·\n·\n·Hi·<end_of_turn>·\n·<start_of_turn>·model·\n·«Hello·<end_of_turn>»·\n·<start_of_turn>"
          "·user·\n·Bye·<end_of_turn>·\n·<start_of_turn>·model·\n·«See· you·<end_of_turn>»·\n" },
    /* Phi-3 */
    { .bytes = { "{% for m in messages %}{{ '<|' ~ m.role ~ '|>\n' ~ m.content ~ '<|end|>\n' }}{% endfor %}"
                 "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}",
                 kind,
                 "<|system|>\nBe kind.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\n«Hello<|end|>»\n"
                 "<|user|>\nBye<|end|>\n<|assistant|>\n«See you<|end|>»\n</s>" },
      .markers = "<|system|> <|user|> <|assistant|> <|end|> </s>",
      .tokens = "<|system|>·\n·Be· "
                "kind·.·<|end|>·\n·<|user|>·\n·Hi·<|end|>·\n·<|assistant|>·\n·«Hello·<|end|>»·\n·<|user|>"
                "·\n·Bye·<|end|>·\n·<|assistant|>·\n·«See· you·<|end|>»·\n·</s>" },
    /* Zephyr */
    { .bytes = { "{% for m in messages %}\n{% if m.role == 'user' %}\n{{ '<|user|>\n' + m.content + "
                 "eos_token "
                 "}}\n"
                 "{% elif m.role == 'system' %}\n{{ '<|system|>\n' + m.content + eos_token }}\n{% else %}\n"
                 "{{ '<|assistant|>\n' + m.content + eos_token }}\n{% endif %}\n"
                 "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% "
                 "endfor "
                 "%}",
                 kind,
                 "<|system|>\nBe kind.</s>\n<|user|>\nHi</s>\n<|assistant|>\n«Hello</s>»\n<|user|>\nBye</s>\n"
                 "<|assistant|>\n«See you</s>»\n" },
      .markers = "</s>",
      .tokens = "<|·system·|>·\n·Be· "
                "kind·.·</s>·\n·<|·user·|>·\n·Hi·</s>·\n·<|·assistant·|>·\n·«Hello·</"
                "s>»·\n·<|·user·|>·\n·Bye·</s>·\n·<|·assistant·|>·\n·«See· you·</s>»·\n" },
    /* DeepSeek V3 */
    { .bytes = { SYSTEM_FIRST
                 "{% if loop.first %}{{ '<BOS>' ~ s }}{% endif %}{% if m.role == 'user' %}{{ '<|User|>' ~ "
                 "m.content }}"
                 "{% else %}{{ '<|Assistant|>' ~ m.content ~ '<|end|>' }}{% endif %}{% endfor %}"
                 "{% if add_generation_prompt %}{{ '<|Assistant|>' }}{% endif %}",
                 kind,
                 "<BOS>Be kind.<|User|>Hi<|Assistant|>«Hello<|end|>»<|User|>Bye<|Assistant|>«See "
                 "you<|end|>»" },
      .markers = "<BOS> <|User|> <|Assistant|> <|end|>",
      .tokens = "<BOS>·Be· kind·.·<|User|>·Hi·<|Assistant|>·«Hello·<|end|>»·<|User|>·Bye·<|Assistant|>·«See· "
                "you·<|end|>»" },
    /* DeepSeek R1 */
    { .bytes = { "{% for m in messages %}{% if m.role == 'user' %}{{ '<|User|>' ~ m.content }}{% else %}"
                 "{{ '<|Assistant|>' ~ m.content.split('</think>')[-1].strip() ~ '<|end|>' }}{% endif %}{% "
                 "endfor %}"
                 "{% if add_generation_prompt %}{{ '<|Assistant|><think>\n' }}{% endif %}",
                 thought, "<|User|>Hi<|Assistant|>«Hello<|end|>»<|User|>Bye<|Assistant|>«See you<|end|>»" },
      .markers = "<|User|> <|Assistant|> <|end|> <think> </think>",
      .tokens = "<|User|>·Hi·<|Assistant|>·«Hello·<|end|>»·<|User|>·Bye·<|Assistant|>·«See· you·<|end|>»" },
    /* Command-R */
    { .bytes = { "<BOS_TOKEN>{% for m in messages %}"
                 "{{ '<|START_OF_TURN|><|' ~ ('CHATBOT' if m.role == 'assistant' else m.role | upper) ~ "
                 "'_TOKEN|>' }}"
                 "{{ m.content.strip() ~ '<|END_OF_TURN|>' }}{% endfor %}"
                 "{% if add_generation_prompt %}{{ '<|START_OF_TURN|><|CHATBOT_TOKEN|>' }}{% endif %}",
                 kind,
                 "<BOS_TOKEN><|START_OF_TURN|><|SYSTEM_TOKEN|>Be kind.<|END_OF_TURN|>"
                 "<|START_OF_TURN|><|USER_TOKEN|>Hi<|END_OF_TURN|>"
                 "<|START_OF_TURN|><|CHATBOT_TOKEN|>«Hello<|END_OF_TURN|>»"
                 "<|START_OF_TURN|><|USER_TOKEN|>Bye<|END_OF_TURN|>"
                 "<|START_OF_TURN|><|CHATBOT_TOKEN|>«See you<|END_OF_TURN|>»" },
      .markers =
          "<BOS_TOKEN> <|START_OF_TURN|> <|END_OF_TURN|> <|SYSTEM_TOKEN|> <|USER_TOKEN|> <|CHATBOT_TOKEN|>",
      .tokens = "<BOS_TOKEN>·<|START_OF_TURN|>·<|SYSTEM_TOKEN|>·Be· "
                "kind·.·<|END_OF_TURN|>·<|START_OF_TURN|>·<|USER_TOKEN|>·Hi·<|END_OF_TURN|>·<|START_OF_TURN|>"
                "·<|CHATBOT_TOKEN|>·«Hello·<|END_OF_TURN|>»·<|START_OF_TURN|>·<|USER_TOKEN|>·Bye·<|END_OF_"
                "TURN|>·<|START_OF_TURN|>·<|CHATBOT_TOKEN|>·«See· you·<|END_OF_TURN|>»" },
    /* OLMo */
    { .bytes = { "{% for m in messages %}{% if m.role != 'assistant' %}{{ '<|' ~ m.role ~ '|>\n' ~ m.content "
                 "~ "
                 "'\n' }}"
                 "{% else %}{{ '<|assistant|>\n' ~ m.content ~ eos_token }}{% if not loop.last %}{{ '\n' "
                 "}}{% "
                 "endif %}"
                 "{% endif %}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif "
                 "%}{% "
                 "endfor %}",
                 kind,
                 "<|system|>\nBe kind.\n<|user|>\nHi\n<|assistant|>\n«Hello</s>»\n<|user|>\nBye\n"
                 "<|assistant|>\n«See you</s>»" },
      .markers = "<|system|> <|user|> <|assistant|> </s>",
      .tokens = "<|system|>·\n·Be· "
                "kind·.·\n·<|user|>·\n·Hi·\n·<|assistant|>·\n·«Hello·</"
                "s>»·\n·<|user|>·\n·Bye·\n·<|assistant|>·\n·«See· you·</s>»" },
    /* Vicuna */
    { .bytes = { SYSTEM_FIRST "{% if loop.first %}{{ s }}{% endif %}{% if m.role == 'user' %} USER: {{ "
                              "m.content }} {% else "
                              "%}"
                              "ASSISTANT: {{ m.content ~ eos_token }}{% endif %}{% endfor %}"
                              "{% if add_generation_prompt %}ASSISTANT:{% endif %}",
                 kind, "Be kind. USER: Hi ASSISTANT:« Hello</s>» USER: Bye ASSISTANT:« See you</s>»" },
      .markers = "</s>",
      .tokens =
          "Be· kind·.· USER·:· Hi· ASSISTANT·:·« Hello·</s>»· USER·:· Bye· ASSISTANT·:·« See· you·</s>»" },
    /* Granite 3 */
    { .bytes = { EACH("", "<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>\n"), kind,
                 "<|start_of_role|>system<|end_of_role|>Be kind.<|end_of_text|>\n"
                 "<|start_of_role|>user<|end_of_role|>Hi<|end_of_text|>\n"
                 "<|start_of_role|>assistant<|end_of_role|>«Hello<|end_of_text|>»\n"
                 "<|start_of_role|>user<|end_of_role|>Bye<|end_of_text|>\n"
                 "<|start_of_role|>assistant<|end_of_role|>«See you<|end_of_text|>»\n" },
      .markers = "<|start_of_role|> <|end_of_role|> <|end_of_text|>",
      .tokens = "<|start_of_role|>·system·<|end_of_role|>·Be· "
                "kind·.·<|end_of_text|>·\n·<|start_of_role|>·user·<|end_of_role|>·Hi·<|end_of_text|>·\n·<|"
                "start_of_role|>·assistant·<|end_of_role|>·«Hello·<|end_of_text|>»·\n·<|start_of_role|>"
                "·user·<|end_of_role|>·Bye·<|end_of_text|>·\n·<|start_of_role|>·assistant·<|end_of_role|>"
                "·«See· you·<|end_of_text|>»·\n" },
    /* gpt-oss */
    { .bytes = { "{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' "
                 "%}<|channel|>final{% "
                 "endif %}"
                 "<|message|>{{ m.content }}{{ '<|return|>' if loop.last and m.role == 'assistant' else "
                 "'<|end|>' }}"
                 "{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}",
                 kind,
                 "<|start|>system<|message|>Be kind.<|end|><|start|>user<|message|>Hi<|end|>"
                 "<|start|>assistant«<|channel|>final<|message|>Hello<|end|>»<|start|>user<|message|>Bye<|"
                 "end|>"
                 "<|start|>assistant«<|channel|>final<|message|>See you<|return|>»" },
      .markers = "<|start|> <|channel|> <|message|> <|end|> <|return|>",
      .tokens = "<|start|>·system·<|message|>·Be· "
                "kind·.·<|end|>·<|start|>·user·<|message|>·Hi·<|end|>·<|start|>·assistant·«<|channel|>"
                "·final·<|message|>·Hello·<|end|>»·<|start|>·user·<|message|>·Bye·<|end|>·<|start|>"
                "·assistant·«<|channel|>·final·<|message|>·See· you·<|return|>»" },
    /* GLM 4: no end but the next role */
    { .bytes = { "[gMASK]<sop>{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{% endfor %}"
                 "{% if add_generation_prompt %}<|assistant|>{% endif %}",
                 kind,
                 "[gMASK]<sop><|system|>\nBe "
                 "kind.<|user|>\nHi<|assistant|>«\nHello»<|user|>\nBye<|assistant|>«\nSee you»" },
      .markers = "[gMASK] <sop> <|system|> <|user|> <|assistant|>",
      .tokens =
          "[gMASK]·<sop>·<|system|>·\n·Be· "
          "kind·.·<|user|>·\n·Hi·<|assistant|>·«\n·Hello»·<|user|>·\n·Bye·<|assistant|>·«\n·See· you»" },
    /* Alpaca: words alone, and an answer that begins with a line's end of its own */
    { .bytes = { "{% for m in messages %}{% if m.role == 'user' %}{{ '### Instruction:\n' ~ m.content ~ "
                 "'\n\n' }}"
                 "{% else %}{{ '### Response:\n' ~ m.content ~ eos_token ~ '\n\n' }}{% endif %}{% endfor %}"
                 "{% if add_generation_prompt %}{{ '### Response:\n' }}{% endif %}",
                 broken,
                 "### Instruction:\nHi\n\n### Response:\n«\nHello</s>»\n\n### Instruction:\nBye\n\n"
                 "### Response:\n«See you</s>»\n\n" },
      .markers = "</s>",
      .tokens = "###· Instruction·:·\n·Hi·\n·\n·###· Response·:·\n·«\n·Hello·</s>»·\n·\n·###· "
                "Instruction·:·\n·Bye·\n·\n·###· Response·:·\n·«See· you·</s>»·\n\n" },
    /* ChatML of a tokenizer that has none of its markers */
    { .bytes = { EACH("", "<|im_start|>", "\n", "<|im_end|>\n"), three,
                 "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n«Hello<|im_end|>»\n<|im_start|>"
                 "user\n"
                 "Bye<|im_end|>\n<|im_start|>assistant\n«See you<|im_end|>»\n" },
      .markers = "",
      .tokens = "<|·im·_·start·|>·user·\n·Hi·<|·im·_·end·|>·\n·<|·im·_·start·|>·assistant·\n·«Hello·<|·im·_"
                "·end·|>»·\n·<|·im·_·start·|>·user·\n·Bye·<|·im·_·end·|>·\n·<|·im·_·start·|>"
                "·assistant·\n·«See· you·<|·im·_·end·|>»·\n" },
    /* Plain words, whose prompt ends in a blank: it is one token with the word behind it, which is learned.
     */
    { .bytes = { "{% for m in messages %}{{ ('USER: ' if m.role == 'user' else 'ASSISTANT: ') ~ m.content ~ "
                 "eos_token }}{% endfor %}{% if add_generation_prompt %}ASSISTANT: {% endif %}",
                 three, "USER: Hi</s>ASSISTANT: «Hello</s>»USER: Bye</s>ASSISTANT: «See you</s>»" },
      .markers = "</s>",
      .tokens = "USER·:· Hi·</s>·ASSISTANT·:·« Hello·</s>»·USER·:· Bye·</s>·ASSISTANT·:·« See· you·</s>»" },
};
