/*
 * The bridge is its worker's from on_start to its end; what the worker has written here by then,
 * the owner reads behind a post. The owner's last post is on_release, whoever ends the bridge, so
 * that no post of the owner's finds it freed.
 *
 * A socket pair tells of an end, and not that it is a break, which comes behind as a post. So
 * neither closes its descriptor before the other has been told: the bridge keeps its own until
 * on_release, and the owner's is held here until bridge_worker_leave, or until on_gone. An end is a
 * shutdown.
 *
 *	owner    new              opened()      ended()      free
 *	worker       on_start ----^-------------^            on_release ---> on_gone (owner)
 */
#include "hub/ingress/bridge_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct bridge_worker {
	struct loop *loop;
	struct tls_worker *worker; /* NULL: the bridge is on the owner's loop */
	struct tls_bridge_setup setup; /* with the owner's callbacks */
	int hold; /* of the owner's end of the socket pair; -1: none */
	bool released; /* the owner's */
	struct preauth_conn *owners; /* the owner's place; NULL: none any more */
	/* the worker's */
	struct tls_bridge *bridge; /* NULL: not yet */
	struct addr from; /* all zero: this end is the client */
	struct preauth_conn place;
	char *host, *sni, *peer;
	char why[256];
	bool failed, ended;
	enum tls_bridge_end end;
	bool shaken; /* the handshake is over */
};

void
bridge_worker_unhold(struct bridge_worker *b)
{
	if (b->hold >= 0)
		close(take_fd(&b->hold));
}

static void
bridge_worker_destroy(struct bridge_worker *b)
{
	bridge_worker_unhold(b);
	pki_ctx_free(&b->setup.ctx);
	free(b->host);
	free(b->sni);
	free(b->peer);
	free(b);
}

/* --- on the owner's loop -------------------------------------------------------------------- */

static void
bridge_worker_leave_place(struct bridge_worker *b)
{
	struct preauth_conn *owners = take_ptr(&b->owners);

	if (owners != NULL)
		owners->branch = NULL;
}

static void
bridge_worker_on_opened(void *arg)
{
	struct bridge_worker *b = arg;

	bridge_worker_leave_place(b);
	if (!b->released)
		b->setup.opened(b->setup.arg, b->failed ? b->why : NULL, b->sni, b->peer);
}

static void
bridge_worker_on_ended(void *arg)
{
	struct bridge_worker *b = arg;

	bridge_worker_leave_place(b);
	if (!b->released)
		b->setup.ended(b->setup.arg, b->end);
}

static void
bridge_worker_on_gone(void *arg)
{
	bridge_worker_destroy(arg);
}

/* --- on the worker's loop ------------------------------------------------------------------- */

static void
bridge_worker_shaken(struct bridge_worker *b, enum tls_worker_result result)
{
	if (b->shaken)
		return;
	b->shaken = true;
	preauth_leave(&b->place);
	atomic_store(&b->place.waits_for_us, true);
	tls_worker_ended(b->worker, result);
}

static void
bridge_worker_opened(void *arg, const char *why, const char *sni, const char *peer)
{
	struct bridge_worker *b = arg;

	b->failed = why != NULL;
	snprintf(b->why, sizeof b->why, "%s", why != NULL ? why : "");
	b->sni = xstrdup(sni);
	b->peer = xstrdup(peer);
	bridge_worker_shaken(b, why != NULL ? TLS_WORKER_FAILED : TLS_WORKER_DONE);
	loop_post(b->loop, bridge_worker_on_opened, b);
}

static void
bridge_worker_ended(void *arg, enum tls_bridge_end end)
{
	struct bridge_worker *b = arg;

	b->ended = true;
	b->end = end;
	bridge_worker_shaken(b, TLS_WORKER_GIVEN_UP);
	loop_post(b->loop, bridge_worker_on_ended, b);
}

static void
bridge_worker_fail(struct bridge_worker *b, const char *why)
{
	bridge_worker_opened(b, why, "", "");
	bridge_worker_ended(b, TLS_BRIDGE_BROKEN);
}

static void
bridge_worker_on_dropped(void *arg)
{
	struct bridge_worker *b = arg;

	tls_bridge_free(&b->bridge);
	bridge_worker_fail(b, "its place was needed: too many handshakes are under way");
}

static void
bridge_worker_on_start(void *arg)
{
	struct bridge_worker *b = arg;
	struct tls_bridge_setup setup = b->setup;
	struct err err = {0};

	setup.loop = tls_worker_loop(b->worker);
	setup.host = b->host;
	setup.place = b->host == NULL ? &b->place : NULL;
	setup.opened = bridge_worker_opened;
	setup.ended = bridge_worker_ended;
	setup.arg = b;
	if (b->host == NULL &&
		!preauth_enter(tls_worker_preauth(b->worker), &b->place, &b->from,
			loop_now_ms(setup.loop))) {
		close(setup.fd);
		close(setup.plain);
		bridge_worker_fail(b, "too many handshakes are under way");
	} else if (tls_bridge_new(&setup, &b->bridge, &err) < 0) {
		bridge_worker_fail(b, err.text);
	}
}

static void
bridge_worker_on_leave(void *arg)
{
	struct bridge_worker *b = arg;

	if (!b->ended)
		tls_bridge_leave(b->bridge);
}

static void
bridge_worker_on_cut(void *arg)
{
	struct bridge_worker *b = arg;

	if (!b->ended)
		tls_bridge_cut(b->bridge);
}

static void
bridge_worker_on_release(void *arg)
{
	struct bridge_worker *b = arg;

	bridge_worker_shaken(b, TLS_WORKER_GIVEN_UP);
	tls_bridge_free(&b->bridge);
	loop_post(b->loop, bridge_worker_on_gone, b);
}

/* --- without workers ------------------------------------------------------------------------ */

static void
bridge_worker_own_opened(void *arg, const char *why, const char *sni, const char *peer)
{
	const struct bridge_worker *b = arg;

	b->setup.opened(b->setup.arg, why, sni, peer);
}

static void
bridge_worker_own_ended(void *arg, enum tls_bridge_end end)
{
	const struct bridge_worker *b = arg;

	b->setup.ended(b->setup.arg, end);
}

/* --- bridges -------------------------------------------------------------------------------- */

int
bridge_worker_new(
	const struct bridge_worker_setup *setup, struct bridge_worker **out, struct err *err)
{
	struct bridge_worker *b = xcalloc(1, sizeof *b);
	struct tls_bridge_setup own = setup->bridge;
	int rc;

	b->hold = -1;
	b->loop = setup->loop;
	b->setup = setup->bridge;
	pki_ctx_ref(b->setup.ctx);
	if (setup->workers == NULL) {
		own.loop = setup->loop;
		own.opened = bridge_worker_own_opened;
		own.ended = bridge_worker_own_ended;
		own.arg = b;
		rc = tls_bridge_new(&own, &b->bridge, err);
		if (rc < 0)
			bridge_worker_destroy(b);
		else
			*out = b;
		return rc;
	}
	b->host = own.host != NULL ? xstrdup(own.host) : NULL;
	if (setup->from != NULL)
		b->from = *setup->from;
	b->hold = fcntl(setup->other, F_DUPFD_CLOEXEC, 0);
	if (b->hold < 0) {
		rc = err_set(err, errno, "no descriptor");
		close(own.fd);
		close(own.plain);
		bridge_worker_destroy(b);
		return rc;
	}
	b->worker =
		setup->beside != NULL ? setup->beside->worker : tls_workers_next(setup->workers);
	b->place = (struct preauth_conn){
		.drop = bridge_worker_on_dropped, .arg = b, .waits_for_us = true};
	b->owners = own.place;
	if (b->owners != NULL)
		b->owners->branch = &b->place;
	*out = b;
	tls_worker_begun(b->worker);
	loop_post(tls_worker_loop(b->worker), bridge_worker_on_start, b);
	return 0;
}

void
bridge_worker_leave(struct bridge_worker *b)
{
	bridge_worker_unhold(b);
	if (b->worker != NULL)
		loop_post(tls_worker_loop(b->worker), bridge_worker_on_leave, b);
	else
		tls_bridge_leave(b->bridge);
}

/* The owner's end is held until on_gone: an end that the worker sees before it knows would be one
 * in good order. */
void
bridge_worker_cut(struct bridge_worker *b)
{
	if (b->worker != NULL)
		loop_post(tls_worker_loop(b->worker), bridge_worker_on_cut, b);
	else
		tls_bridge_cut(b->bridge);
}

void
bridge_worker_free(struct bridge_worker **out)
{
	struct bridge_worker *b = take_ptr(out);

	if (b == NULL)
		return;
	bridge_worker_leave_place(b);
	if (b->worker != NULL) {
		b->released = true;
		loop_post(tls_worker_loop(b->worker), bridge_worker_on_release, b);
		return;
	}
	tls_bridge_free(&b->bridge);
	bridge_worker_destroy(b);
}
