/* The browser's driver on pages that have faults: each check that other tests make of pages finds the one
 * that is meant for it, and nothing in a page without. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "browser/browser_checks.h"
#include "io/scratch.h"

static browser *b;

static void show(const char *html, browser_view view) {
    scratch_write("page.html", html, strlen(html));
    must(browser_open(b, "page.html", view));
}

#define CLEAN                                                                                                \
    "<!doctype html><meta charset=utf-8><title>clean</title><h1>One</h1>"                                    \
    "<canvas id=c width=200 height=100 role=img aria-label='Memory over the step'></canvas>"                 \
    "<table><caption>All bytes</caption><tr><th>name<th>bytes<tr><td>w<td>12</table>"

/* A page that is as it should be: nothing is found. */
static void a_clean_page_has_no_fault(void **state) {
    (void)state;
    show(CLEAN, (browser_view){ 0 });
    must(browser_listen(b, 0.1));
    expect_no_complaint(b);
    expect_one_request(b, "/page.html");
    assert_string_equal(asked(b, "document.title"), "clean");
    assert_string_equal(asked(b, "new Promise(r=>setTimeout(()=>r({a:[1,2]}),5))"), "{\"a\":[1,2]}");
}

/* Faults, and what is said of them. */
static void each_fault_is_heard(void **state) {
    (void)state;
    static const struct {
        const char *html, *said;
    } faults[] = {
        { "<script>console.error('planted', 7)</script>", "console.error: planted 7" },
        { "<script>console.warn('planted')</script>", "console.warning: planted" },
        { "<script>console.assert(false, 'planted')</script>", "console.assert: planted" },
        { "<script>null.planted</script>", "exception: Uncaught TypeError" },
        { "<script>Promise.reject(new Error('planted'))</script>", "Error: planted" },
        { "<script>setTimeout(()=>{throw Error('late')},30)</script>", "Error: late" },
        { "<script>alert('planted')</script>", "dialog: planted" },
        { "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'\"><script>1</script>",
          "issue ContentSecurityPolicyIssue" },
        { "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'\"><p style='color:red'>x",
          "violates the following Content Security Policy" },
        { "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'\">"
          "<img src=http://planted.invalid/a.png>",
          "http://planted.invalid/a.png" },
        { "<script src=other.js></script>", "other.js" },
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        char html[1024];
        snprintf(html, sizeof html, "<!doctype html><meta charset=utf-8>%s", faults[i].html);
        show(html, (browser_view){ 0 });
        must(browser_listen(b, 0.15));
        const char *heard = json_line(browser_complaints(b));
        if (!strstr(heard, faults[i].said)) fail_msg("%s: heard %s", faults[i].html, heard);
    }
    show(CLEAN, (browser_view){ 0 }); /* and is forgotten with its page */
    expect_no_complaint(b);
}

/* Whatever a page asks for, beside itself. */
static void each_request_is_heard(void **state) {
    (void)state;
    static const struct {
        const char *html, *asked;
    } pages[] = {
        { "<img src=http://planted.invalid/a.png>", "http://planted.invalid/a.png" },
        { "<link rel=stylesheet href=neighbour.css>", "neighbour.css" },
        { "<script>fetch('https://planted.invalid/b').catch(()=>0)</script>", "https://planted.invalid/b" },
        { "<style>p{background:url(//planted.invalid/c.gif)}</style><p>x", "planted.invalid/c.gif" },
        { "<script>new Image().src='http://planted.invalid/d'</script>", "http://planted.invalid/d" },
        { "<iframe src=about:blank srcdoc='<img src=http://planted.invalid/e>'></iframe>",
          "http://planted.invalid/e" },
    };
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        show(pages[i].html, (browser_view){ 0 });
        must(browser_listen(b, 0.1));
        const char *heard = json_line(browser_requests(b));
        assert_true(json_object_array_length(browser_requests(b)) > 1);
        if (!strstr(heard, pages[i].asked)) fail_msg("%s: heard %s", pages[i].html, heard);
    }
}

/* What assistive technology is told, and what it isn't where a name is missing. */
static void names_are_told_and_missed(void **state) {
    (void)state;
    struct json_object *tree;
    show(CLEAN, (browser_view){ 0 });
    must(browser_tree(b, &tree));
    assert_int_equal(browser_named(tree, "image", "Memory over the step"), 1);
    assert_int_equal(browser_named(tree, "table", "All bytes"), 1);
    assert_int_equal(browser_named(tree, "heading", "One"), 1);
    assert_true(browser_named(tree, NULL, "12") >= 1);
    json_object_put(tree);
    show("<canvas width=200 height=100></canvas><svg role=img width=9 height=9></svg><table><tr><td>w</table>"
         "<p aria-hidden=true>hidden</p>",
         (browser_view){ 0 });
    must(browser_tree(b, &tree));
    assert_int_equal(browser_named(tree, NULL, "Memory over the step"), 0);
    assert_int_equal(browser_named(tree, NULL, "All bytes"), 0);
    assert_int_equal(browser_named(tree, NULL, "hidden"), 0);
    json_object_put(tree);
}

#ifdef SNUG_PNG
static void blank_is_told_from_drawn(void **state) {
    (void)state;
    browser_picture p;
    show(CLEAN, (browser_view){ 0 });
    must(browser_look(b, "#c", &p)); /* nobody drew on it */
    assert_int_equal(p.width, 200);
    assert_int_equal(p.height, 100);
    assert_int_equal(p.colours, 1);
    assert_true(p.commonest == 1);
    must(browser_look(b, NULL, &p)); /* though the window has words */
    assert_int_equal(p.width, 1280);
    assert_true(p.colours > 1);
    show(CLEAN "<script>const x=c.getContext('2d');x.fillStyle='#123456';x.fillRect(0,0,100,50)</script>",
         (browser_view){ 0 });
    must(browser_look(b, "#c", &p));
    assert_int_equal(p.colours, 2);
    assert_true(p.commonest == 0.75);
    show("", (browser_view){ 0 });
    must(browser_look(b, NULL, &p));
    assert_int_equal(p.colours, 1);
    assert_int_equal(browser_look(b, "#missing", &p), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "there is no #missing"));
}
#endif

static void views_reach_the_page(void **state) {
    (void)state;
    static const char html[] = "<!doctype html><p id=p>no</p><script>p.textContent='yes'</script>";
    static const char dark[] = "matchMedia('(prefers-color-scheme:dark)').matches";
    show(html, (browser_view){ 0 });
    assert_string_equal(asked(b, "p.textContent+innerWidth"), "yes1280");
    assert_string_equal(asked(b, dark), "false");
    show(html, (browser_view){ .width = 360, .height = 640, .dark = true });
    assert_string_equal(asked(b, "p.textContent+innerWidth"), "yes360");
    assert_string_equal(asked(b, dark), "true");
    show(html, (browser_view){ .no_scripts = true });
    assert_string_equal(asked(b, "document.getElementById('p').textContent"), "no");
    show(html, (browser_view){ .print = true });
    assert_string_equal(asked(b, "matchMedia('print').matches"), "true");
}

/* A page that says where the pointer is and which key was pressed, at once or after 80 ms of work. */
static void pointer_and_keys_are_answered(void **state) {
    (void)state;
    double seconds[2];
    for (int slow = 0; slow < 2; slow++) {
        char html[512];
        snprintf(html, sizeof html,
                 "<!doctype html><p id=p tabindex=0>-</p><script>"
                 "addEventListener('pointermove',e=>{const t=performance.now();while(performance.now()<t+%d);"
                 "p.textContent=e.clientX+','+e.clientY});"
                 "addEventListener('keydown',e=>p.textContent=e.key);"
                 "addEventListener('click',e=>p.textContent='click')</script>",
                 slow ? 80 : 0);
        show(html, (browser_view){ 0 });
        must(browser_point(b, 300, 200, &seconds[slow]));
        assert_string_equal(asked(b, "p.textContent"), "300,200");
        must(browser_key(b, "ArrowRight"));
        assert_string_equal(asked(b, "p.textContent"), "ArrowRight");
        must(browser_key(b, "z"));
        assert_string_equal(asked(b, "p.textContent"), "z");
        must(browser_click(b, 5, 5));
        assert_string_equal(asked(b, "p.textContent"), "click");
    }
    assert_true(seconds[1] >= 0.08);
    assert_true(seconds[0] < seconds[1]);
    print_message("the pointer is answered in %.1f ms, by a page that waits 80 ms in %.1f ms\n",
                  1000 * seconds[0], 1000 * seconds[1]);
    assert_int_equal(browser_key(b, "NoSuchKey"), STATUS_INVALID);
}

static void slow_pages_are_ready_late(void **state) {
    (void)state;
    show(CLEAN, (browser_view){ 0 });
    double plain = browser_ready_seconds(b);
    assert_true(browser_ready_work(b) < 0.15);
    show("<script>const until=performance.now()+5000;let s=0;" /* and no longer, on a busy machine */
         "for(let i=0;i<500&&performance.now()<until;i++)for(let j=0;j<1e6;j++)s+=j;window.s=s</script>",
         (browser_view){ 0 });
    assert_true(browser_ready_work(b) >= 0.15);
    show("<script>const t=performance.now();while(performance.now()<t+400);</script>", (browser_view){ 0 });
    assert_true(browser_ready_seconds(b) >= 0.4);
    print_message("a small page is ready after %.0f ms, one that works 400 ms after %.0f ms\n", 1000 * plain,
                  1000 * browser_ready_seconds(b));
}

static void what_fails_is_said(void **state) {
    (void)state;
    struct json_object *value;
    show(CLEAN, (browser_view){ 0 });
    assert_int_equal(browser_value(b, "no.such.thing", &value), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "ReferenceError"));
    assert_int_equal(browser_open(b, "missing.html", (browser_view){ 0 }), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "missing.html: there is no such file"));
    browser *none;
    assert_int_equal(browser_start("/no/such/program", &none), STATUS_FAILED);
    assert_null(none);
    assert_non_null(strstr(status_message(), "the browser has ended"));
}

/* A page that never comes to an end, and a browser that ends itself. */
static void waiting_has_an_end(void **state) {
    (void)state;
    browser *own;
    must(browser_start(browser_program(), &own));
    browser_set_patience(own, 1.5);
    static const char html[] = "<p>x</p><script>for(;;);</script>";
    scratch_write("endless.html", html, strlen(html));
    assert_int_equal(browser_open(own, "endless.html", (browser_view){ 0 }), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "within 1.5 s"));
    kill(-browser_process(own), SIGKILL);
    assert_int_equal(browser_listen(own, 20), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "the browser has ended"));
    char profile[128];
    snprintf(profile, sizeof profile, "%s", browser_profile(own));
    assert_int_equal(access(profile, F_OK), 0);
    browser_close(own);
    assert_int_not_equal(access(profile, F_OK), 0);
}

/* A test that is killed leaves neither process nor profile. */
static void nothing_is_left_of_a_test_that_was_killed(void **state) {
    (void)state;
    struct {
        int process;
        char profile[128];
    } told = { 0 };
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        browser *own;
        if (browser_start(browser_program(), &own) != STATUS_OK) _exit(1);
        told.process = browser_process(own);
        snprintf(told.profile, sizeof told.profile, "%s", browser_profile(own));
        if (write(ends[1], &told, sizeof told) != (ssize_t)sizeof told) _exit(1);
        pause();
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &told, sizeof told), sizeof told);
    close(ends[0]);
    assert_int_equal(kill(-told.process, 0), 0);
    assert_int_equal(access(told.profile, F_OK), 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    for (int i = 0; i < 500 && access(told.profile, F_OK) == 0; i++) usleep(10000);
    assert_int_not_equal(access(told.profile, F_OK), 0);
    assert_int_equal(kill(-told.process, 0), -1); /* no process of its group */
}

static int open_all(void **state) { return browser_tests_open(state, &b); }

static int close_all(void **state) { return browser_tests_close(state, b); }

int main(void) {
    if (!browser_can_be_tested()) return browser_needed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clean_page_has_no_fault),
        cmocka_unit_test(each_fault_is_heard),
        cmocka_unit_test(each_request_is_heard),
        cmocka_unit_test(names_are_told_and_missed),
#ifdef SNUG_PNG
        cmocka_unit_test(blank_is_told_from_drawn),
#endif
        cmocka_unit_test(views_reach_the_page),
        cmocka_unit_test(pointer_and_keys_are_answered),
        cmocka_unit_test(slow_pages_are_ready_late),
        cmocka_unit_test(what_fails_is_said),
        cmocka_unit_test(waiting_has_an_end),
        cmocka_unit_test(nothing_is_left_of_a_test_that_was_killed),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
