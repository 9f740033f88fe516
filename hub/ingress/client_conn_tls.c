#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/log.h"
#include "hub/ingress/client_conn.h"
#include "hub/port/client_hello.h"

/* Detaches the bridge from its client connection. */
static void
leg_leave(struct leg *l)
{
	struct client_conn *v = take_ptr(&l->visit);

	if (v != NULL && v->near == l)
		v->near = NULL;
	if (v != NULL && v->far == l)
		v->far = NULL;
}

void
leg_free(struct leg *l)
{
	leg_leave(l);
	TAILQ_REMOVE(&l->ingress->legs, l, entry);
	preauth_leave(&l->place);
	l->ingress->n_legs--;
	bridge_worker_free(&l->bridge);
	if (l->fd >= 0)
		close(l->fd);
	free(l);
}

/* The caller gets what its bridge has read: it is not broken off with the connection. */
static void
leg_cut(struct leg *near)
{
	leg_leave(near);
	bridge_worker_cut(near->bridge);
}

/* One that has broken keeps its descriptors until the connection ends: see relay_worker_break. */
static void
on_ended(void *arg, enum tls_bridge_end end)
{
	struct leg *l = arg;
	struct client_conn *v = l->visit;
	bool near = v != NULL && v->near == l;

	if (v == NULL || end == TLS_BRIDGE_WHOLE) {
		leg_free(l);
		return;
	}
	l->over = true;
	if (end == TLS_BRIDGE_CUT && v->near != NULL && !v->near->over)
		leg_cut(v->near);
	client_conn_break(v,
		near                            ? "the caller's TLS connection broke"
			: end == TLS_BRIDGE_CUT ? "the target's TLS connection ended without "
						  "close_notify: more may have been meant"
						: "the target's TLS connection broke");
}

static struct leg *
client_conn_tls_make(struct ingress *i, const struct door *door)
{
	struct leg *l = xcalloc(1, sizeof *l);

	l->ingress = i;
	l->door = door;
	l->fd = -1;
	TAILQ_INSERT_TAIL(&i->legs, l, entry);
	i->n_legs++;
	return l;
}

static int
leg_pair(const struct door *door, int pair[2])
{
	int rc = 0;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0) {
		rc = -errno;
		log_limited(LOG_LEVEL_ERROR, 6, "ingress", "door=%s: no pair of sockets: %s",
			door->name, strerror(-rc));
	}
	return rc;
}

/* --- TLS of the client ---------------------------------------------------------------------- */

static void
on_caller_open(void *arg, const char *why, const char *sni, const char *peer)
{
	struct leg *l = arg;
	char text[ACCESS_NAME_MAX + 8];

	if (why != NULL) {
		l->ingress->handshakes_failed++;
		log_limited(LOG_LEVEL_WARN, 6, "ingress",
			"a caller's TLS handshake failed door=%s caller=%s reason=\"%s\"",
			l->door->name, caller_text(&l->caller, text), why);
		return;
	}
	preauth_leave(&l->place); /* the client connection gets a place of its own */
	l->caller.admitted = l->door->proven;
	snprintf(l->caller.cert, sizeof l->caller.cert, "%s", l->door->proven ? peer : "");
	if (ingress_begin(l->ingress, l->door, take_fd(&l->fd), &l->caller, l, sni) == NULL)
		bridge_worker_unhold(l->bridge);
}

static void
leg_on_dropped(void *arg)
{
	leg_free(arg);
}

void
leg_take(struct ingress *i, const struct door *door, int fd, const struct caller *caller)
{
	struct leg *l = client_conn_tls_make(i, door);
	struct bridge_worker_setup setup = {
		.loop = i->config.loop,
		.workers = i->config.workers,
		.from = &l->caller.addr,
		.bridge = {.fd = fd,
			.ctx = door->tls,
			.proof = door->proven ? TLS_PROVEN : TLS_ANYBODY,
			.place = &l->place,
			.opened = on_caller_open,
			.ended = on_ended,
			.arg = l},
	};
	struct err err = {0};
	int pair[2];

	l->caller = *caller;
	l->place = (struct preauth_conn){.drop = leg_on_dropped, .arg = l};
	if (!preauth_enter(
		    i->config.preauth, &l->place, &caller->addr, loop_now_ms(i->config.loop))) {
		i->full++;
		leg_free(l);
		close(fd);
		return;
	}
	if (leg_pair(door, pair) < 0) {
		leg_free(l);
		close(fd);
		return;
	}
	setup.other = l->fd = pair[0];
	setup.bridge.plain = pair[1];
	if (bridge_worker_new(&setup, &l->bridge, &err) < 0) {
		log_limited(LOG_LEVEL_ERROR, 6, "ingress", "door=%s: %s", door->name, err.text);
		leg_free(l);
	}
}

/* --- TLS to the target ---------------------------------------------------------------------- */

static void
on_target_open(void *arg, const char *why, const char *sni, const char *peer)
{
	struct leg *l = arg;

	(void)sni;
	(void)peer;
	if (why == NULL)
		return;
	l->ingress->handshakes_failed++;
	log_limited(LOG_LEVEL_WARN, 6, "ingress",
		"the TLS handshake with a target failed door=%s reason=\"%s\"", l->door->name, why);
}

int
leg_onward(struct client_conn *v, int plain, const char *host)
{
	struct ingress *i = v->ingress;
	const struct door *door = v->door;
	struct leg *l = client_conn_tls_make(i, door);
	struct bridge_worker_setup setup = {
		.loop = i->config.loop,
		.workers = i->config.workers,
		.beside = v->near != NULL ? v->near->bridge : NULL,
		.bridge = {.plain = plain,
			.ctx = door->onward,
			.host = host,
			.proof = door->onward_proven ? TLS_PROVEN : TLS_ANYBODY,
			.opened = on_target_open,
			.ended = on_ended,
			.arg = l},
	};
	struct err err = {0};
	int pair[2], rc = leg_pair(door, pair);

	if (rc < 0) {
		leg_free(l);
		close(plain);
		return rc;
	}
	setup.bridge.fd = pair[0];
	setup.other = pair[1];
	if (bridge_worker_new(&setup, &l->bridge, &err) < 0) {
		log_limited(LOG_LEVEL_ERROR, 6, "ingress", "door=%s: %s", door->name, err.text);
		leg_free(l);
		close(pair[1]);
		return -EINVAL;
	}
	l->visit = v;
	v->far = l;
	return pair[1];
}

/* --- the server name in the ClientHello ----------------------------------------------------- */

/* RFC 8446 section 6: a fatal alert in a record of its own, before any handshake. */
static void
add_alert(struct buf *to, unsigned status)
{
	enum { ACCESS_DENIED = 49, INTERNAL_ERROR = 80, UNRECOGNIZED_NAME = 112 };
	const uint8_t code = status == 403      ? ACCESS_DENIED
		: status < 500 && status != 429 ? UNRECOGNIZED_NAME
						: INTERNAL_ERROR;
	const uint8_t alert[] = {21, 3, 3, 0, 2, 2, code};

	buf_add(to, alert, sizeof alert);
}

void
client_conn_sni_refuse(struct client_conn *v, unsigned status, const char *line)
{
	if (v->sni != NULL ||
		!client_hello_is_tls((const uint8_t *)buf_at(&v->in), buf_len(&v->in))) {
		client_conn_http_refuse(v, status, line, true);
		return;
	}
	client_conn_audit(v, status, 0, 0, line);
	add_alert(&v->out, status);
	client_conn_linger(v);
}

void
client_conn_sni_input(struct client_conn *v)
{
	const uint8_t *bytes = (const uint8_t *)buf_at(&v->in);
	char name[CLIENT_HELLO_NAME_MAX + 1];
	int rc = client_hello_name(bytes, buf_len(&v->in), name);

	if (rc == 0 && !v->eof) {
		client_conn_update(v);
	} else if (rc <= 0) {
		client_conn_sni_refuse(v, 400,
			client_hello_is_tls(bytes, buf_len(&v->in))
				? "no server name in the TLS ClientHello: it names the node"
				: "this port speaks TLS");
	} else {
		client_conn_reach(v, name, v->door->port, v->door->dest);
		client_conn_update(v);
	}
}
