/*
 * The worker loops on which TLS is done for the main loop: handshakes (base/tls/tls_handshake.h)
 * and whole connections (hub/ingress/bridge_worker.h). What is given to a worker belongs to its
 * thread; the loops' posts, which keep their order, are all that is exchanged with it.
 *
 * A worker's handshakes are rationed as base/core/preauth says: one step each turn of its loop, of
 * one client after the other. The loops outlive the workers.
 *
 *	workers = tls_workers_new(loops, n, preauth);	// before the loops run
 *	w = tls_workers_next(workers);
 *	tls_worker_begun(w);
 *	loop_post(tls_worker_loop(w), on_start, me);
 */
#ifndef EDGEWAY_BASE_TLS_TLS_WORKERS_H
#define EDGEWAY_BASE_TLS_TLS_WORKERS_H

#include "base/core/metric.h"
#include "base/core/preauth.h"

struct tls_workers;
struct tls_worker;

enum { TLS_WORKERS_MAX = 64 };
enum tls_worker_result { TLS_WORKER_DONE, TLS_WORKER_FAILED, TLS_WORKER_GIVEN_UP };

/* Each gets a preauth_branch. */
struct tls_workers *tls_workers_new(
	struct loop *const *loops, size_t n, const struct preauth *preauth);
/* Once everything that was given to them is over or was given up, and before the loops are
 * stopped. */
void tls_workers_free(struct tls_workers **w);
/* NULL: writes nothing. */
void tls_workers_metrics(const struct tls_workers *w, struct metrics *m);

/* Each in turn. On the main loop. */
struct tls_worker *tls_workers_next(struct tls_workers *w);
struct loop *tls_worker_loop(const struct tls_worker *w);
/* On the worker's thread. */
struct preauth *tls_worker_preauth(const struct tls_worker *w);
/* A handshake has been given to it, and is over. Any thread. */
void tls_worker_begun(struct tls_worker *w);
void tls_worker_ended(struct tls_worker *w, enum tls_worker_result result);

#endif
