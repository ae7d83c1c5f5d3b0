/* libmicrohttpd, opened when a server begins and not when the program does: with what it wants itself it
 * takes two mebibytes, which no other command has in its plan. */
#pragma once

#include <microhttpd.h>

#include "base/status.h"

#define HTTP_LIBRARY_CALLS(CALL)                                                                             \
    CALL(add_connection)                                                                                     \
    CALL(add_response_header)                                                                                \
    CALL(create_response_from_buffer)                                                                        \
    CALL(create_response_from_callback)                                                                      \
    CALL(destroy_response)                                                                                   \
    CALL(get_connection_info)                                                                                \
    CALL(get_connection_values)                                                                              \
    CALL(lookup_connection_value)                                                                            \
    CALL(queue_response)                                                                                     \
    CALL(resume_connection)                                                                                  \
    CALL(set_connection_option)                                                                              \
    CALL(start_daemon)                                                                                       \
    CALL(stop_daemon)                                                                                        \
    CALL(suspend_connection)

/* MHD_name as http_library.name, of the types that its header declares. */
#define HTTP_LIBRARY_FIELD(name) __typeof__(MHD_##name) *name;
extern struct http_library { HTTP_LIBRARY_CALLS(HTTP_LIBRARY_FIELD) } http_library;

enum { HTTP_LIBRARY_BYTES = 3 << 20 }; /* resident, with what it wants: planned */

/* STATUS_INVALID where it is not to be had. It stays open. */
status http_library_open(void);
