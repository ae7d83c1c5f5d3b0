/* What is drawn, as pixels: a picture in PNG, sent as base64. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "browser/browser_internal.h"

#ifdef SNUG_PNG
#include <png.h>

/* Decodes in place; gives the number of bytes. */
static size_t decode(char *text) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t bytes = 0;
    uint32_t held = 0;
    int bits = 0;
    for (const char *c = text; *c && *c != '='; c++) {
        const char *digit = strchr(digits, *c);
        if (!digit) continue;
        held = held << 6 | (uint32_t)(digit - digits);
        bits += 6;
        if (bits >= 8) text[bytes++] = (char)(held >> (bits -= 8));
    }
    return bytes;
}

enum { COLOURS = 4096 };

/* A table of the colours that were seen, open addressing. */
static void count_colours(const uint32_t *pixels, size_t count, browser_picture *out) {
    static struct {
        uint32_t colour;
        size_t pixels;
    } seen[2 * COLOURS];
    memset(seen, 0, sizeof seen);
    size_t most = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t at = pixels[i] * 2654435761u >> 19; /* 13 bits */
        while (seen[at].pixels && seen[at].colour != pixels[i]) at = (at + 1) % (2 * COLOURS);
        if (!seen[at].pixels && out->colours == COLOURS) continue;
        out->colours += !seen[at].pixels;
        seen[at].colour = pixels[i];
        if (++seen[at].pixels > most) most = seen[at].pixels;
    }
    out->commonest = count ? (double)most / (double)count : 1;
}

static status read_picture(char *png, size_t bytes, browser_picture *out) {
    png_image image = { .version = PNG_IMAGE_VERSION };
    if (!png_image_begin_read_from_memory(&image, png, bytes))
        return status_set(STATUS_FAILED, "the browser's picture can't be read: %s", image.message);
    image.format = PNG_FORMAT_RGBA;
    uint32_t *pixels = malloc(PNG_IMAGE_SIZE(image));
    bool read = pixels && png_image_finish_read(&image, NULL, pixels, 0, NULL);
    if (read) {
        *out = (browser_picture){ .width = (int)image.width, .height = (int)image.height };
        count_colours(pixels, (size_t)image.width * image.height, out);
    }
    free(pixels);
    png_image_free(&image);
    return read ? STATUS_OK : status_set(STATUS_FAILED, "the browser's picture can't be read");
}
#else
static size_t decode(char *text) { return strlen(text); }
static status read_picture(char *png, size_t bytes, browser_picture *out) {
    (void)png, (void)bytes, (void)out;
    return status_set(STATUS_FAILED, "pictures of pages are not looked at: this build has no libpng");
}
#endif

/* Where the element is, in the page; asked of the page even where its own scripts are off. */
static status clip_to(browser *b, const char *selector, struct json_object *parameters) {
    char expression[1024];
    struct json_object *quoted = json_object_new_string(selector), *place;
    snprintf(expression, sizeof expression,
             "(()=>{const e=document.querySelector(%s);if(!e)return null;const r=e.getBoundingClientRect();"
             "return{x:r.x+scrollX,y:r.y+scrollY,width:r.width,height:r.height,scale:1}})()",
             json_object_to_json_string(quoted));
    json_object_put(quoted);
    TRY(browser_value(b, expression, &place));
    if (!place) return status_set(STATUS_FAILED, "there is no %s in the page to look at", selector);
    json_object_object_add(parameters, "clip", place);
    json_object_object_add(parameters, "captureBeyondViewport", json_object_new_boolean(true));
    return STATUS_OK;
}

status browser_look(browser *b, const char *selector, browser_picture *out) {
    struct json_object *parameters = json_object_new_object(), *answer;
    json_object_object_add(parameters, "format", json_object_new_string("png"));
    status result = selector ? clip_to(b, selector, parameters) : STATUS_OK;
    if (result != STATUS_OK) {
        json_object_put(parameters);
        return result;
    }
    TRY(browser_call(b, true, "Page.captureScreenshot", parameters, &answer));
    char *png = strdup(browser_text(answer, "data"));
    json_object_put(answer);
    if (!png) return status_set(STATUS_FAILED, "no memory for a picture");
    result = read_picture(png, decode(png), out);
    free(png);
    return result;
}
