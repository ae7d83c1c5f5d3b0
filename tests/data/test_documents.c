/* Documents of text, JSON and CSV, packed and not: what they hold, however the pieces are cut, and a sentence
 * with the place for what is wrong. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <string.h>

#ifdef SNUG_ZLIB
#include <zlib.h>
#endif
#ifdef SNUG_ZSTD
#include <zstd.h>
#endif

#include "data/documents/files.h"
#include "data/documents/form.h"
#include "data/transcript.h"
#include "io/scratch.h"

static const document_column just_text[] = { { "text", false, NULL } };
static const document_column pair[] = { { "prompt", false, NULL }, { "completion", false, NULL } };
static const document_column chat[] = { { "messages", true, NULL } };

static document_options options_of(const char *path, const document_column *columns, uint32_t count) {
    return (document_options){ .path = path, .columns = columns, .column_count = count };
}

static void write_text(const char *path, const char *data) { scratch_write(path, data, strlen(data)); }

static void holds(const char *path, const char *data, const document_column *columns, uint32_t count,
                  const char *expected) {
    write_text(path, data);
    transcript_check(options_of(path, columns, count), expected);
}

/* The file is refused, whatever the size of the pieces, by a sentence that says `says`. */
static void refused_as(document_options o, const char *says) {
    static const uint32_t sizes[] = { 0, 64, 91 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        text out;
        o.piece_bytes = sizes[i];
        if (transcript(&o, NULL, &out) != STATUS_INVALID) fail_msg("%s: not refused (%s)", o.path, says);
        if (!strstr(status_message(), says)) fail_msg("'%s' does not say '%s'", status_message(), says);
        assert_non_null(strstr(status_message(), o.path));
        text_close(&out);
    }
}

static void refused(const char *path, const char *data, const document_column *columns, uint32_t count,
                    const char *says) {
    write_text(path, data);
    refused_as(options_of(path, columns, count), says);
}

/* ---- text ---- */

static void text_is_one_document(void **state) {
    (void)state;
    char large[3001] = { 0 }, expected[3100];
    for (int i = 0; i < 3000; i += 3) memcpy(large + i, "\xe2\x82\xac", 3);
    holds("a.txt", "one\ntwo", just_text, 1, "#0 0:\"one\\u000atwo\"\n");
    holds("a.txt", "", just_text, 1, "#0 0:\"\"\n");
    snprintf(expected, sizeof expected, "#0 0:\"%s\"\n", large);
    holds("a.txt", large, just_text, 1, expected);
}

/* One U+FFFD for each longest beginning of a character, as Unicode recommends and Python does. */
static void what_is_no_utf8_is_refused_or_replaced(void **state) {
    (void)state;
    static const struct {
        const char *bytes, *replaced;
    } cases[] = { { "a\xff", "a?" },
                  { "\xf0\x9f\x98", "?" },
                  { "\xf0\x9f\x98z", "?z" },
                  { "\xed\xa0\x80", "???" },
                  { "\xc0\xaf", "??" },
                  { "\xe2\x82", "?" },
                  { "\xf0\x80\x80", "???" },
                  { "\x80", "?" },
                  { "\xf4\x90\x80\x80", "????" },
                  { "\xe2\xe2\x82\xac", "?\xe2\x82\xac" },
                  { "\xf0\x9f\xe2\x82", "??" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int before = 57; before < 66; before++) {
            char data[128], expected[400];
            int used = 0;
            memset(data, 'x', sizeof data);
            strcpy(data + before, cases[i].bytes);
            write_text("a.txt", data);
            if (before == 63) refused_as(options_of("a.txt", just_text, 1), "no UTF-8");
            used = snprintf(expected, sizeof expected, "#0 0:\"%.*s", before, data);
            for (const char *c = cases[i].replaced; *c; c++)
                used += snprintf(expected + used, sizeof expected - (size_t)used,
                                 *c == '?' ? "\xef\xbf\xbd" : "%c", *c);
            snprintf(expected + used, sizeof expected - (size_t)used, "\"\n");
            document_options o = options_of("a.txt", just_text, 1);
            o.replace = true;
            transcript_check(o, expected);
        }
}

/* ---- JSON ---- */

static void lines_of_json_are_read(void **state) {
    (void)state;
    holds(
        "a.jsonl",
        "{\"text\": \"a\"}\n\n  {\"x\":[1,{\"text\":\"no\"}],\"text\":\"b\\n\\u00e9\\ud83d\\ude00\\/\"}\r\n",
        just_text, 1, "#0 0:\"a\"\n#1 0:\"b\\u000a\xc3\xa9\xf0\x9f\x98\x80/\"\n");
    holds("a.jsonl", "\xef\xbb\xbf{\"text\":\"\"}", just_text, 1, "#0 0:\"\"\n");
    holds("a.jsonl", "{\"text\":\"\\u0000\\\"\\\\\"}", just_text, 1, "#0 0:\"\\u0000\\\"\\\\\"\n");
    holds("a.jsonl", "{\"completion\":\"c\",\"n\":1e5,\"prompt\":\"p\"}\n", pair, 2, "#0 1:\"c\" 0:\"p\"\n");
    holds("a.jsonl", "", just_text, 1, "");
    holds("a.jsonl", "\n \n", just_text, 1, "");
    holds(
        "a.jsonl",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{},{\"role\":\"assistant\",\"name\":null}]}\n"
        "{\"messages\":[]}\n",
        chat, 1, "#0 0[0] 0[0.role]:\"user\" 0[0.content]:\"hi\" 0[1] 0[2] 0[2.role]:\"assistant\"\n#1\n");
}

static void members_that_nobody_wants_pass(void **state) {
    (void)state;
    static const char *const wanted[] = { "from", "value", NULL };
    static const document_column talk[] = { { "conversations", true, wanted } };
    holds("a.jsonl",
          "{\"conversations\":[{\"from\":\"human\",\"weight\":0,\"value\":\"hi\",\"calls\":[{}]}]}", talk, 1,
          "#0 0[0] 0[0.from]:\"human\" 0[0.value]:\"hi\"\n");
    refused("a.jsonl", "{\"conversations\":[{\"from\":7}]}", talk, 1, "\"from\" is no string");
}

static const document_column with_tools[] = { { "messages", true, NULL }, { "tools", false, NULL } };

/* A chat whose members and tools may be any JSON. */
static document_options any_json(const char *path) {
    document_options o = options_of(path, with_tools, 2);
    o.json = 3, o.optional = 2;
    return o;
}

static void holds_json(const char *path, const char *data, const char *expected) {
    write_text(path, data);
    transcript_check(any_json(path), expected);
}

static void refused_json(const char *path, const char *data, const char *says) {
    write_text(path, data);
    refused_as(any_json(path), says);
}

static void values_come_as_json(void **state) {
    (void)state;
    holds_json(
        "a.jsonl",
        "{\"tools\": [ {\"f\":[1,-2.5e3, true]} ] ,\"messages\":[{\"role\":\"user\",\"weight\":0,"
        "\"name\":null,\"content\":[{}, [ ]]},{\"ok\":false }]}\n",
        "#0 1:json \"[ {\\\"f\\\":[1,-2.5e3, true]} ]\" 0[0] 0[0.role]:\"user\" 0[0.weight]:json \"0\" "
        "0[0.name]:json \"null\" 0[0.content]:json \"[{}, [ ]]\" 0[1] 0[1.ok]:json \"false\"\n");
    /* tools may be a string that holds them, null, or not there */
    holds_json("a.jsonl",
               "{\"messages\":[],\"tools\":\"[\\\"f\\\"]\"}\n{\"tools\":null,\"messages\":[]}\n"
               "{\"messages\":[]}\n{\"messages\":[],\"tools\":7}\n",
               "#0 1:\"[\\\"f\\\"]\"\n#1\n#2\n#3 1:json \"7\"\n");
    /* an array of objects has ends of lines within values; then the lines are counted */
    holds_json("a.json", "[{\"messages\":[{\"c\":{\n\"a\"\n:\n1}}]}]",
               "#0 0[0] 0[0.c]:json \"{\\u000a\\\"a\\\"\\u000a:\\u000a1}\"\n");
    refused_json("a.json", "[{\"messages\":[{\"c\":{\n\"a\"\n:\n1]}}]", "line 4: brackets do not agree");
}

/* An escape that need not be one is its letter, so that what is half of a surrogate shows. */
static void escapes_in_values_stay_json(void **state) {
    (void)state;
    static const char half[] = "{\"messages\":[{\"c\":[\"\\ud83d\"]}]}";
    holds_json("a.jsonl",
               "{\"messages\":[{\"c\":[\"\\u00e9\\ud83d\\ude00\\/\\u0041\",\"\\\"\\\\\\n\\u0022\\u005C\\u0000"
               "\\u001f\"]}]}",
               "#0 0[0] 0[0.c]:json \"[\\\"\xc3\xa9\xf0\x9f\x98\x80/A\\\",\\\"\\\\\\\"\\\\\\\\\\\\n\\\\u0022"
               "\\\\u005C\\\\u0000\\\\u001f\\\"]\"\n");
    refused_json("a.jsonl", half, "half a surrogate");
    write_text("a.jsonl", half);
    document_options o = any_json("a.jsonl");
    o.replace = true;
    transcript_check(o, "#0 0[0] 0[0.c]:json \"[\\\"\xef\xbf\xbd\\\"]\"\n");
}

static void damaged_values_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *value, *says;
    } cases[] = { { "[}", "brackets do not agree" },
                  { "{]", "brackets do not agree" },
                  { "[1", "the file ends where a value was expected" },
                  { "[\n1]", "the line ends where a value was expected" },
                  { "[\"a", "the file ends where the end of a string was expected" },
                  { "[\"\\q\"]", "an unknown escape" },
                  { "[\"\\ud83d\"]", "half a surrogate" },
                  { "[\"\t\"]", "a control character" },
                  { "[;]", "a value was expected" },
                  { "['a']", "a value was expected" },
                  { ";", "a value was expected" },
                  { "", "a value was expected" },
                  { "1 2", "a comma or } behind a value was expected" },
                  { "[]]", "a comma or } behind a value was expected" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char data[256];
        /* without the end of what is around where the value swallows it */
        snprintf(data, sizeof data, "{\"messages\":[]}\n{\"messages\":[{\"c\":%s", cases[i].value);
        if (!strstr(cases[i].says, "file ends")) strcat(data, "}]}");
        refused_json("a.jsonl", data, cases[i].says);
        refused_json("a.jsonl", data, "line 2: ");
    }
    refused_json("a.jsonl", "{\"tools\":[]}", "the record has no \"messages\"");
    refused_json("a.jsonl", "{\"messages\":null}", "\"messages\" is no list");
    refused_json("a.jsonl", "{\"messages\":[],\"tools\":[],\"tools\":null}", "\"tools\" comes twice");
    char deep[200] = "{\"messages\":[],\"tools\":", number[400];
    for (int i = 0; i < 64; i++) strcat(deep, "[");
    refused_json("a.jsonl", deep, "the file ends");
    refused_json("a.jsonl", strcat(deep, "["), "64 deep");
    snprintf(number, sizeof number, "{\"messages\":[{\"c\":%0256d}]}", 1);
    refused_json("a.jsonl", number, "more than 255 letters");
    document_options must = any_json("a.jsonl");
    must.optional = 0;
    write_text("a.jsonl", "{\"messages\":[],\"tools\":null}");
    refused_as(must, "\"tools\" is null");
    write_text("a.jsonl", "{\"messages\":[]}");
    refused_as(must, "the record has no \"tools\"");
}

static void columns_may_be_missing(void **state) {
    (void)state;
    write_text("a.csv", "prompt\np\n");
    document_options o = options_of("a.csv", pair, 2);
    o.optional = 2;
    transcript_check(o, "#0 0:\"p\"\n");
    o.optional = 1;
    refused_as(o, "the line of names has no completion");
}

static void draw_value(uint64_t *random, text *out, int depth) {
    static const char *const scalars[] = { "0",
                                           "-1.5e-7",
                                           "true",
                                           "null",
                                           "\"\"",
                                           "\"a \\\" ]}\"",
                                           "\"\xf0\x9f\x98\x80\xe2\x82\xac\\\\\"",
                                           "\"abcdefghijklmnopqrstuvwxyz\"" };
    uint32_t kind = scratch_random(random) % (depth < 5 ? 4 : 2), n = scratch_random(random) % 5;
    if (kind < 2) {
        text_add(out, "%s", scalars[scratch_random(random) % (sizeof scalars / sizeof *scalars)]);
        return;
    }
    text_add(out, kind == 2 ? "[" : "{");
    for (uint32_t i = 0; i < n; i++) {
        text_add(out, "%s%s", i ? "," : "", scratch_random(random) % 3 ? "" : " \t");
        if (kind == 3) text_add(out, "\"k%u\": ", i);
        draw_value(random, out, depth + 1);
    }
    text_add(out, kind == 2 ? "]" : " }");
}

/* Values without escapes of letters are handed on byte by byte, however they are cut. */
static void drawn_values_are_handed_on(void **state) {
    (void)state;
    uint64_t random = 77;
    for (int round = 0; round < 200; round++) {
        text data = { 0 }, expected = { 0 };
        for (int record = 0; record < 4; record++) {
            text value = { 0 };
            do {
                text_close(&value);
                value = (text){ 0 };
                draw_value(&random, &value, 0);
            } while (value.data[0] == '"');
            text_add(&data, "{\"messages\": [{\"x\": %s}], \"skipped\": %s}\n", value.data, value.data);
            text_add(&expected, "#%d 0[0] 0[0.x]:json \"", record);
            for (const char *c = value.data; *c; c++) {
                if (*c == '\t')
                    text_add(&expected, "\\u0009");
                else
                    text_add(&expected, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
            }
            text_add(&expected, "\"\n");
            text_close(&value);
        }
        write_text("drawn.jsonl", data.data);
        transcript_check(any_json("drawn.jsonl"), expected.data);
        text_close(&data), text_close(&expected);
    }
}

static void arrays_of_objects_are_read(void **state) {
    (void)state;
    holds("a.json", "[\n {\"text\":\"a\"},\n{\"y\":{\"z\":[]},\n\"text\":\n\"b\"}\n]\n", just_text, 1,
          "#0 0:\"a\"\n#1 0:\"b\"\n");
    holds("a.json", "[]", just_text, 1, "");
    refused("a.json", "[{\"text\":\"a\"}", just_text, 1, "line 1: the file ends where a comma or ]");
    refused("a.json", "[{\"text\":\"a\"}\n{\"text\":\"b\"}]", just_text, 1, "line 2: a comma or ]");
    refused("a.json", "[{\"text\":\"a\"},]", just_text, 1, "an object such as");
    refused("a.json", "[]\n\n7", just_text, 1, "line 3: something follows the array");
}

static void damaged_json_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *line, *says;
    } cases[] = { { "{\"text\": 7}", "\"text\" is no string" },
                  { "{\"text\": null}", "\"text\" is no string" },
                  { "{\"t\": 7}", "the record has no \"text\"" },
                  { "{\"text\":\"a\",\"text\":\"b\"}", "comes twice" },
                  { "{\"text\":\"a\"", "the file ends where a comma or }" },
                  { "{\"text\":\"a", "the file ends where the end of a string" },
                  { "{\"text\":\"a\n\"}", "the line ends where the end of a string" },
                  { "{\n\"text\":\"a\"}", "one object on one line" },
                  { "{\"text\":\"\\ud800\"}", "half a surrogate" },
                  { "{\"text\":\"\\ud800\\u0041\"}", "half a surrogate" },
                  { "{\"text\":\"\\u12g4\"}", "four hexadecimal" },
                  { "{\"text\":\"\\q\"}", "unknown escape" },
                  { "{\"text\":\"a\tb\"}", "control character" },
                  { "{\"text\":\"a\"} x", "something follows the record" },
                  { "{\"x\":[}]}", "brackets do not agree" },
                  { "{\"x\":}", "a value was expected" },
                  { "7", "an object such as" },
                  { "{\"text\" \"a\"}", "a colon" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char data[256];
        snprintf(data, sizeof data, "{\"text\":\"fine\"}\n%s", cases[i].line);
        refused("a.jsonl", data, just_text, 1, cases[i].says);
        refused("a.jsonl", data, just_text, 1, "line 2");
    }
    refused("a.jsonl", "{\"messages\":7}", chat, 1, "is no list");
    refused("a.jsonl", "{\"messages\":[7]}", chat, 1, "an object in the list");
    refused("a.jsonl", "{\"messages\":[{\"content\":[]}]}", chat, 1, "\"content\" is no string");
}

static void deep_json_is_refused(void **state) {
    (void)state;
    char data[400] = "{\"x\":", name[700];
    for (int i = 0; i < 65; i++) strcat(data, "[");
    refused("a.jsonl", data, just_text, 1, "64 deep");
    snprintf(name, sizeof name, "{\"%0300d\":1}", 0);
    refused("a.jsonl", name, just_text, 1, "255 bytes");
}

/* ---- CSV ---- */

static void csv_is_read(void **state) {
    (void)state;
    holds("a.csv", "id,text\r\n1,a\r\n2,\"b,\"\"c\"\"\r\nd\"\r\n\r\n3,\n", just_text, 1,
          "#0 0:\"a\"\n#1 0:\"b,\\\"c\\\"\\u000d\\u000ad\"\n#2 0:\"\"\n");
    holds("a.csv", "\xef\xbb\xbf\"completion\",prompt\rc,p\r\"\",\"\"", pair, 2,
          "#0 1:\"c\" 0:\"p\"\n#1 1:\"\" 0:\"\"\n");
    holds("a.csv", "text\n", just_text, 1, "");
    holds("a.tsv", "id\ttext\n1,2\t\"a\tb\"\n", just_text, 1, "#0 0:\"a\\u0009b\"\n");
    holds("a.csv", "text\n\"\"\"\"\n", just_text, 1, "#0 0:\"\\\"\"\n");
}

static void damaged_csv_is_refused(void **state) {
    (void)state;
    refused("a.csv", "id,txt\n1,2\n", just_text, 1, "the line of names has no text");
    refused("a.csv", "", just_text, 1, "the line of names has no text");
    refused("a.csv", "text,text\n", just_text, 1, "two columns are called text");
    refused("a.csv", "messages\n", chat, 1, "asked for as a list");
    refused("a.csv", "id,text\n1,a\n2\n", just_text, 1,
            "line 3: the record has 1 fields, and the line of names 2");
    refused("a.csv", "id,text\n1,a,b\n", just_text, 1, "line 2: the record has more fields");
    refused("a.csv", "id,text\n1,\"a\n", just_text, 1, "the file ends inside of quotes");
    refused("a.csv", "id,text\n1,\"a\"b\n", just_text, 1, "something follows the quotes");
    refused("a.csv", "id,text\n1,a\"b\n", just_text, 1, "a quote inside of a field");
}

/* ---- random records, in each format and packing ---- */

static uint64_t seed = 16;

static void draw_string(text *out) {
    static const char *const bits[] = { "a",
                                        "b c",
                                        "\"",
                                        "\\",
                                        "\n",
                                        ",",
                                        "\r\n",
                                        "\xc3\xa9",
                                        "\xe2\x82\xac",
                                        "\xf0\x9f\x98\x80",
                                        "{}",
                                        "xyzzyxyzzyxyzzyxyzzyxyzzyxyzzyxyzzyxyzzyxyzzy" };
    uint32_t n = scratch_random(&seed) % 40;
    if (scratch_random(&seed) % 20 == 0) n *= 20;
    while (n-- > 0) text_add(out, "%s", bits[scratch_random(&seed) % (sizeof bits / sizeof *bits)]);
}

static void add_escaped(text *out, const char *string) {
    for (const char *c = string; *c; c++) {
        if (*c == '"' || *c == '\\')
            text_add(out, "\\%c", *c);
        else if ((unsigned char)*c < 0x20)
            text_add(out, "\\u%04x", *c);
        else
            text_add(out, "%c", *c);
    }
}

typedef struct {
    text json, array, csv, expected;
} drawn;

static drawn draw_records(int count) {
    drawn d = { 0 };
    text_add(&d.array, "[");
    text_add(&d.csv, "n,text\n");
    for (int i = 0; i < count; i++) {
        text string = { 0 }, quoted = { 0 };
        text_add(&string, "%s", "");
        draw_string(&string);
        text_add(&quoted, "%s", "");
        add_escaped(&quoted, string.data);
        text_add(&d.json, "{\"n\":%d,\"text\":\"%s\"}\n", i, quoted.data);
        text_add(&d.array, "%s{\"text\":\"%s\"}", i ? ",\n" : "", quoted.data);
        text_add(&d.expected, "#%d 0:\"%s\"\n", i, quoted.data);
        text_add(&d.csv, "%d,\"", i);
        for (const char *c = string.data; *c; c++) text_add(&d.csv, *c == '"' ? "\"\"" : "%c", *c);
        text_add(&d.csv, "\"\n");
        text_close(&string), text_close(&quoted);
    }
    text_add(&d.array, "]");
    return d;
}

/* In members or frames of some bytes each. */
#ifdef SNUG_ZLIB
static void write_gzip(const char *path, const char *data, size_t bytes, size_t member) {
    static unsigned char packed[1 << 20];
    FILE *file = fopen(path, "wb");
    for (size_t at = 0; at < bytes; at += member) {
        z_stream z = { .next_in = (unsigned char *)data + at,
                       .avail_in = (unsigned)(bytes - at < member ? bytes - at : member),
                       .next_out = packed,
                       .avail_out = sizeof packed };
        assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, MAX_WBITS + 16, 8, 0), Z_OK);
        assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
        assert_int_equal(fwrite(packed, 1, z.total_out, file), z.total_out);
        deflateEnd(&z);
    }
    fclose(file);
}
#endif

#ifdef SNUG_ZSTD
static void write_zstd(const char *path, const char *data, size_t bytes, size_t frame) {
    static unsigned char packed[1 << 20];
    FILE *file = fopen(path, "wb");
    for (size_t at = 0; at < bytes; at += frame) {
        size_t n = bytes - at < frame ? bytes - at : frame;
        size_t made = ZSTD_compress(packed, sizeof packed, data + at, n, 3);
        assert_false(ZSTD_isError(made));
        assert_int_equal(fwrite(packed, 1, made, file), made);
    }
    fclose(file);
}
#endif

static void check_file(const char *path, const char *expected) {
    document_options o = options_of(path, just_text, 1);
    o.window = 1 << 20;
    transcript_check(o, expected);
}

static void check_packed(const char *name, const text *data, const char *expected) {
    char path[64];
    size_t part = data->length / 3 + 1;
    (void)part, (void)path;
    scratch_write(name, data->data, data->length);
    check_file(name, expected);
#ifdef SNUG_ZLIB
    snprintf(path, sizeof path, "%s.gz", name);
    write_gzip(path, data->data, data->length, part);
    check_file(path, expected);
#endif
#ifdef SNUG_ZSTD
    snprintf(path, sizeof path, "%s.zst", name);
    write_zstd(path, data->data, data->length, part);
    check_file(path, expected);
#endif
}

static void pieces_and_packing_change_nothing(void **state) {
    (void)state;
    for (int i = 0; i < 12; i++) {
        drawn d = draw_records(1 + i * 3);
        check_packed("r.jsonl", &d.json, d.expected.data);
        check_packed("r.json", &d.array, d.expected.data);
        check_packed("r.csv", &d.csv, d.expected.data);
        text_close(&d.json), text_close(&d.array), text_close(&d.csv), text_close(&d.expected);
    }
}

/* ---- what Python's own modules write ---- */

static int is_data(const struct dirent *item) {
    return item->d_name[0] != '.' && !strstr(item->d_name, ".expected");
}

static void files_of_python_are_read(void **state) {
    (void)state;
    static char expected[1 << 20];
    char command[1024];
    struct dirent **items;
    const char *named = getenv("SNUG_TEST_SEED");
    int wanted = getenv("SNUG_TEST_LONG") ? 1000 : 40;
    if (system("python3 -c 'import csv, gzip, json' >probe 2>&1") != 0) {
        print_message("skipped: there is no python3\n");
        skip();
    }
    assert_int_equal(mkdir("python", 0700), 0);
    snprintf(command, sizeof command, "python3 '%s/tests/data/documents.py' %s %d python", SNUG_ROOT,
             named ? named : "1", wanted);
    assert_int_equal(system(command), 0);
    int count = scandir("python", &items, is_data, alphasort);
    assert_int_equal(count, wanted);
    for (int i = 0; i < count; i++) {
        char path[512], beside[600];
        snprintf(path, sizeof path, "python/%.400s", items[i]->d_name);
        snprintf(beside, sizeof beside, "%s.expected", path);
        FILE *file = fopen(beside, "rb");
        expected[fread(expected, 1, sizeof expected - 1, file)] = 0;
        fclose(file);
        document_options o = options_of(path, just_text, 1);
        o.replace = true;
#ifndef SNUG_ZLIB
        if (document_packing_of(path) != DOCUMENT_GZIP)
#endif
            transcript_check(o, expected);
        free(items[i]);
    }
    free(items);
}

/* ---- packed files that are wrong ---- */

static void damaged_packing_is_refused(void **state) {
    static char data[200000], file[200000];
    (void)state, (void)file;
    for (size_t i = 0; i < sizeof data; i++) data[i] = (char)('a' + scratch_random(&seed) % 26);
#ifdef SNUG_ZLIB
    refused("no.txt.gz", "this is none", just_text, 1, "it is no gzip");
    refused("empty.txt.gz", "", just_text, 1, "cut short");
    write_gzip("a.txt.gz", data, sizeof data, sizeof data);
    FILE *f = fopen("a.txt.gz", "rb");
    size_t bytes = fread(file, 1, sizeof file, f);
    fclose(f);
    scratch_write("cut.txt.gz", file, bytes - 5);
    refused_as(options_of("cut.txt.gz", just_text, 1), "cut short");
    memcpy(file + bytes, "\0\0\0\0", 4);
    scratch_write("zeros.txt.gz", file, bytes + 4);
    transcript_check(options_of("zeros.txt.gz", just_text, 1), NULL);
    memcpy(file + bytes, "more", 4);
    scratch_write("more.txt.gz", file, bytes + 4);
    refused_as(options_of("more.txt.gz", just_text, 1), "it is no gzip");
    file[bytes - 8] ^= 1;
    scratch_write("sum.txt.gz", file, bytes);
    refused_as(options_of("sum.txt.gz", just_text, 1), "incorrect data check");
#else
    refused("no.txt.gz", "this is none", just_text, 1, "this program was built without zlib");
#endif
#ifdef SNUG_ZSTD
    refused("no.txt.zst", "this is none", just_text, 1, "it is no Zstandard");
    refused("empty.txt.zst", "", just_text, 1, "cut short");
    write_zstd("a.txt.zst", data, sizeof data, sizeof data);
    FILE *z = fopen("a.txt.zst", "rb");
    size_t n = fread(file, 1, sizeof file, z);
    fclose(z);
    scratch_write("cut.txt.zst", file, n - 5);
    refused_as(options_of("cut.txt.zst", just_text, 1), "cut short");
    document_options narrow = options_of("a.txt.zst", just_text, 1);
    narrow.window = 64 << 10;
    refused_as(narrow, "a frame wants a larger window than the 64.0 KiB");
#else
    refused("no.txt.zst", "this is none", just_text, 1, "this program was built without libzstd");
#endif
}

/* ---- whole records ---- */

static void records_are_gathered(void **state) {
    (void)state;
    static _Alignas(64) char memory[64 << 10], room[4096];
    write_text("g.jsonl", "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\","
                          "\"content\":\"there\"}]}\n{\"messages\":[]}\n");
    document_options o = options_of("g.jsonl", chat, 1);
    documents *d;
    document_record r;
    bool more;
    assert_int_equal(documents_open(&o, memory, sizeof memory, &d), STATUS_OK);
    assert_int_equal(documents_gather(d, room, sizeof room, &r, &more), STATUS_OK);
    assert_true(more);
    assert_int_equal(r.count, 4);
    assert_int_equal(r.items[0], 2);
    assert_string_equal(r.strings[3].member, "content");
    assert_int_equal(r.strings[3].item, 1);
    assert_int_equal(r.strings[3].count, 5);
    assert_memory_equal(r.strings[3].bytes, "there", 5);
    assert_string_equal(r.strings[0].member, "role");
    assert_int_equal(documents_gather(d, room, sizeof room, &r, &more), STATUS_OK);
    assert_true(more && r.count == 0 && r.items[0] == 0 && r.place.line == 2);
    assert_int_equal(documents_gather(d, room, sizeof room, &r, &more), STATUS_OK);
    assert_false(more);
    documents_close(d);
    write_text("g.jsonl", "{\"tools\":\"[]\",\"messages\":[{\"n\":[1]}]}\n");
    o = any_json("g.jsonl");
    assert_int_equal(documents_open(&o, memory, sizeof memory, &d), STATUS_OK);
    assert_int_equal(documents_gather(d, room, sizeof room, &r, &more), STATUS_OK);
    assert_int_equal(r.count, 2);
    assert_true(r.strings[0].column == 1 && !r.strings[0].json && !r.strings[0].member);
    assert_true(r.strings[1].column == 0 && r.strings[1].json && r.strings[1].count == 3);
    documents_close(d);
    write_text("g.jsonl", "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\","
                          "\"content\":\"there\"}]}\n{\"messages\":[]}\n");
    o = options_of("g.jsonl", chat, 1);
    assert_int_equal(documents_open(&o, memory, sizeof memory, &d), STATUS_OK);
    assert_int_equal(documents_seek(d, (document_place){ 0 }), STATUS_OK);
    assert_int_equal(documents_gather(d, room, 100, &r, &more), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "more than the 100 bytes planned"));
    documents_close(d);
}

/* ---- files and options ---- */

static void weights_are_read(void **state) {
    (void)state;
    char path[64];
    double weight;
    write_text("odd:2", "x");
    assert_int_equal(document_files_weight("a.jsonl:0.7", "--data", path, sizeof path, &weight), STATUS_OK);
    assert_string_equal(path, "a.jsonl");
    assert_true(weight == 0.7);
    assert_int_equal(document_files_weight("odd:2", "--data", path, sizeof path, &weight), STATUS_OK);
    assert_string_equal(path, "odd:2");
    assert_true(weight == 1);
    assert_int_equal(document_files_weight("odd:2:3", "--data", path, sizeof path, &weight), STATUS_OK);
    assert_true(weight == 3 && strcmp(path, "odd:2") == 0);
    assert_int_equal(document_files_weight("a:b", "--data", path, sizeof path, &weight), STATUS_OK);
    assert_string_equal(path, "a:b");
    assert_int_equal(document_files_weight("a:0", "--data", path, sizeof path, &weight), STATUS_INVALID);
    assert_int_equal(document_files_weight("a:-1", "--data", path, sizeof path, &weight), STATUS_INVALID);
    assert_int_equal(document_files_weight("a:1e999", "--data", path, sizeof path, &weight), STATUS_INVALID);
    static const char *const none[] = { "a:nan", "a:NaN", "a:-nan", "a:inf", "a:-infinity", "a:0.0", "a:-0" };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(document_files_weight(none[i], "--data", path, sizeof path, &weight),
                         STATUS_INVALID);
    assert_int_equal(document_files_weight("", "--data", path, sizeof path, &weight), STATUS_INVALID);
}

static void folders_are_walked_in_order(void **state) {
    (void)state;
    document_files files;
    assert_int_equal(mkdir("walk", 0700) | mkdir("walk/b", 0700) | mkdir("walk/empty", 0700), 0);
    write_text("walk/c.jsonl", "x"), write_text("walk/a.jsonl.gz", "x"), write_text("walk/b/z.ndjson", "x");
    write_text("walk/b/.hidden", "x");
    assert_int_equal(document_files_open("walk", DOCUMENT_AUTO, &files), STATUS_OK);
    assert_int_equal(files.count, 3);
    assert_int_equal(files.format, DOCUMENT_JSON);
    assert_string_equal(files.paths[0], "walk/a.jsonl.gz");
    assert_string_equal(files.paths[1], "walk/b/z.ndjson");
    assert_string_equal(files.paths[2], "walk/c.jsonl");
    assert_true(files.held_bytes > 0);
    document_files_close(&files);
    write_text("walk/readme.md", "x");
    assert_int_equal(document_files_open("walk", DOCUMENT_AUTO, &files), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "holds text by their names"));
    assert_int_equal(document_files_open("walk", DOCUMENT_TEXT, &files), STATUS_OK);
    assert_int_equal(files.count, 4);
    document_files_close(&files);
    assert_int_equal(document_files_open("walk/empty", DOCUMENT_AUTO, &files), STATUS_INVALID);
    assert_int_equal(document_files_open("nowhere", DOCUMENT_AUTO, &files), STATUS_INVALID);
    assert_int_equal(symlink("..", "walk/b/up"), 0);
    assert_int_equal(document_files_open("walk", DOCUMENT_TEXT, &files), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "link"));
}

static void form_is(const char *path, const char *first, uint32_t wanted, bool is_list) {
    document_column columns[DOCUMENT_FORM_COLUMNS];
    uint32_t count;
    document_options o = { .path = path };
    if (document_form_find(&o, &(document_form_names){ .messages = "conversations" }, columns, &count) !=
        STATUS_OK)
        fail_msg("%s", status_message());
    assert_string_equal(columns[0].name, first);
    assert_int_equal(count, wanted);
    assert_int_equal(columns[0].is_list, is_list);
}

static void form_is_refused(const char *path, const char *says) {
    document_column columns[DOCUMENT_FORM_COLUMNS];
    uint32_t count;
    document_options o = { .path = path };
    assert_int_equal(document_form_find(&o, &(document_form_names){ 0 }, columns, &count), STATUS_INVALID);
    if (!strstr(status_message(), says)) fail_msg("'%s' does not say '%s'", status_message(), says);
}

static void forms_are_found_by_names(void **state) {
    (void)state;
    char many[2000] = "a";
    for (int i = 0; i < 300; i++) strcat(many, ",bcd");
    write_text("f.txt", "x"), form_is("f.txt", "text", 1, false);
    write_text("f.jsonl", "{\"id\":1,\"text\":\"a\"}"), form_is("f.jsonl", "text", 1, false);
    write_text("f.json", "[{\"completion\":\"a\",\"prompt\":\"b\"}]"), form_is("f.json", "prompt", 2, false);
    write_text("f.jsonl", "{\"prompt\":\"a\",\"conversations\":[]}"),
        form_is("f.jsonl", "conversations", 1, true);
    write_text("f.csv", "prompt,completion\n"), form_is("f.csv", "prompt", 2, false);
    write_text("f.jsonl", "{\"prompt\": [],\"completion\":[{}]}"), form_is("f.jsonl", "prompt", 2, true);
    write_text("f.jsonl", "{\"prompt\": [],\"completion\":\"a\"}");
    form_is_refused("f.jsonl", "prompt is a list and completion is none");
    write_text("f.jsonl", "{\"prompt\":\"a\",\"conversations\":[]}");
    form_is(SNUG_ROOT "/tests/data/parquet/text-fallback.parquet", "text", 1, false);
    form_is(SNUG_ROOT "/tests/data/parquet/pair-v1.parquet", "prompt", 2, false);
    form_is(SNUG_ROOT "/tests/data/parquet/turns-v1.parquet", "prompt", 2, true);
    form_is_refused("f.jsonl", "its columns are prompt, conversations: say which");
    write_text("f.jsonl", ""), form_is_refused("f.jsonl", "f.jsonl is empty; put records into it");
    write_text("f.jsonl", "{\"text\":\"a\",\"messages\":[]}"), form_is_refused("f.jsonl", "more than one of");
    write_text("f.csv", many), form_is_refused("f.csv", "bcd and 241 more");
}

static void options_are_checked(void **state) {
    (void)state;
    static const document_column twice[] = { { "a", false, NULL }, { "a", true, NULL } };
    uint64_t bytes;
    document_format format;
    document_options o = options_of("a.txt", just_text, 1);
    write_text("a.txt", "x");
    o.piece_bytes = 63;
    assert_int_equal(documents_need(&o, &bytes), STATUS_INVALID);
    o = options_of("a.txt", just_text, 0);
    assert_int_equal(documents_need(&o, &bytes), STATUS_INVALID);
    o = options_of("a.txt", twice, 2);
    assert_int_equal(documents_need(&o, &bytes), STATUS_INVALID);
    o = options_of("nowhere", just_text, 1);
    assert_int_equal(documents_need(&o, &bytes), STATUS_INVALID);
    o = options_of(".", just_text, 1);
    assert_int_equal(documents_need(&o, &bytes), STATUS_INVALID);
    assert_int_equal(document_format_parse("csv", "--data-kind", &format), STATUS_OK);
    assert_int_equal(format, DOCUMENT_CSV);
    assert_int_equal(document_format_parse("tsv", "--data-kind", &format), STATUS_INVALID);
    assert_int_equal(document_format_of("x.json.zst"), DOCUMENT_JSON);
    assert_int_equal(document_format_of("x"), DOCUMENT_TEXT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_one_document),
        cmocka_unit_test(what_is_no_utf8_is_refused_or_replaced),
        cmocka_unit_test(lines_of_json_are_read),
        cmocka_unit_test(members_that_nobody_wants_pass),
        cmocka_unit_test(values_come_as_json),
        cmocka_unit_test(escapes_in_values_stay_json),
        cmocka_unit_test(damaged_values_are_refused),
        cmocka_unit_test(columns_may_be_missing),
        cmocka_unit_test(drawn_values_are_handed_on),
        cmocka_unit_test(arrays_of_objects_are_read),
        cmocka_unit_test(damaged_json_is_refused),
        cmocka_unit_test(deep_json_is_refused),
        cmocka_unit_test(csv_is_read),
        cmocka_unit_test(damaged_csv_is_refused),
        cmocka_unit_test(pieces_and_packing_change_nothing),
        cmocka_unit_test(files_of_python_are_read),
        cmocka_unit_test(damaged_packing_is_refused),
        cmocka_unit_test(records_are_gathered),
        cmocka_unit_test(weights_are_read),
        cmocka_unit_test(folders_are_walked_in_order),
        cmocka_unit_test(forms_are_found_by_names),
        cmocka_unit_test(options_are_checked),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
