/* For tests of TLS on worker threads: two worker loops with their rations of handshakes, the test's
 * own loop, and contexts of a CA (server, client) and of strangers. */
#ifndef EDGEWAY_TESTS_UNIT_BASE_TLS_WORKERS_BED_H
#define EDGEWAY_TESTS_UNIT_BASE_TLS_WORKERS_BED_H

#include "base/tls/tls_workers.h"
#include "tests/unit/base/tls/tls_keys.h"
#include "tests/unit/patience.h"

enum { WORKERS = 2, PLACES = 64, BULK = 1 << 18 };

extern struct tls_keys ours, strangers;
extern struct ssl_ctx_st *server, *client, *stranger;
extern struct loop *loop, *loops[WORKERS];
extern struct preauth *preauth;
extern struct tls_workers *pool;
extern char bulk[BULK]; /* random */

/* For cmocka_run_group_tests. */
int workers_bed_make(void **state);
int workers_bed_free(void **state);
/* The workers do nothing between the two. */
void workers_bed_hold(void);
void workers_bed_release(void);

#endif
