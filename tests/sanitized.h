/* Is this the build with sanitizers? There a test that runs in both builds draws fewer cases, or compares
 * fewer numbers, where fewer pass through the same lines: the plain build compares all of them (test.sh). */
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
