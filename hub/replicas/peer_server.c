#include "hub/replicas/peers_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/tls/tls_handshake.h"
#include "model/health.h"

enum {
	/* of lists that wait for a replica that does not read: 50 000 nodes and room */
	OUT_MOST = 32 << 20,
};

static void
unlink_from(struct guest *g)
{
	struct peer *from = take_ptr(&g->from);

	if (from == NULL)
		return;
	from->guests--;
	peers_release(from);
}

void
guest_free(struct guest *g)
{
	struct peers *p = g->of;

	TAILQ_REMOVE(g->session != NULL ? &p->guests : &p->handshakes, g, link);
	p->n_guests -= g->session != NULL;
	preauth_leave(&g->place);
	stream_close(&g->list, STREAM_CANCELLED);
	session_free(&g->session);
	tls_handshake_free(&g->handshake);
	tls_stream_free(&g->tls);
	buf_fini(&g->out);
	unlink_from(g);
	free(g);
	peers_say_drained(p);
}

static void
turn_away(struct guest *g, const char *why)
{
	log_limited(LOG_LEVEL_WARN, 20, "hub", "a replica is refused peer=%s reason=\"%s\"",
		g->address, why);
	g->of->refused++;
	guest_free(g);
}

/* --- the list ------------------------------------------------------------------------------- */

static void
peer_server_flush(struct guest *g)
{
	while (g->list != NULL && buf_len(&g->out) > 0) {
		size_t n = MIN(stream_room(g->list), buf_len(&g->out));

		if (n == 0)
			return;
		stream_write(g->list, buf_at(&g->out), n);
		buf_consume(&g->out, n);
	}
	if (buf_len(&g->out) == 0)
		buf_release(&g->out);
}

/* If too much waits, the list is broken off: the replica asks again, and gets the current state. */
static void
tell_on(struct guest *g)
{
	if (buf_len(&g->out) <= OUT_MOST) {
		peer_server_flush(g);
		return;
	}
	log_limited(LOG_LEVEL_WARN, 6, "hub",
		"a replica does not read what it is told of nodes; it has to ask anew peer=%s "
		"address=%s",
		g->name, g->address);
	buf_fini(&g->out);
	stream_close(&g->list, STREAM_CANCELLED);
}

void
guest_tell(struct guest *g, const char *node)
{
	uint64_t epoch = tunnels_epoch(g->of->config.tunnels, node);

	if (g->list == NULL || g->of->drain_ms != 0)
		return;
	peer_proto_say(&g->out, epoch != 0 ? PEER_SAYS_HOLDS : PEER_SAYS_GONE, node, epoch);
	tell_on(g);
}

static void
add_holds(void *arg, const char *node, uint64_t epoch)
{
	peer_proto_say(arg, PEER_SAYS_HOLDS, node, epoch);
}

static void
add_joined(void *arg, const char *node)
{
	peer_proto_say(arg, PEER_SAYS_JOINED, node, 0);
}

static void
add_declared(void *arg, const char *node, const char *entry)
{
	if (entry == NULL)
		peer_proto_say(arg, PEER_SAYS_DECLARES, node, 0);
	else
		peer_proto_reach(arg, node, entry);
}

void
guest_tell_declared(struct guest *g, const char *node)
{
	const struct peers_config *c = &g->of->config;
	size_t before = buf_len(&g->out);

	if (g->list == NULL || g->of->drain_ms != 0)
		return;
	c->declared(c->arg, node, add_declared, &g->out);
	if (buf_len(&g->out) == before)
		peer_proto_say(&g->out, PEER_SAYS_FORGETS, node, 0);
	tell_on(g);
}

void
guest_tell_joined(struct guest *g, const char *node)
{
	if (g->list == NULL || g->of->drain_ms != 0)
		return;
	peer_proto_say(&g->out, PEER_SAYS_JOINED, node, 0);
	tell_on(g);
}

void
guest_tell_presence(struct guest *g, const struct presence_row *row)
{
	if (g->list == NULL || g->of->drain_ms != 0)
		return;
	peer_proto_presence(&g->out, row);
	tell_on(g);
}

void
guest_tell_trouble(struct guest *g)
{
	if (g->list == NULL || g->of->drain_ms != 0)
		return;
	peer_proto_trouble(&g->out, g->of->trouble);
	tell_on(g);
}

/* Of connected nodes only our own; of absent ones all, since the replica that saw them last may be
 * gone. */
static void
add_presence(void *arg, const struct presence_row *row)
{
	if (!row->connected || row->at[0] == '\0')
		peer_proto_presence(arg, row);
}

static void
on_list_reset(void *arg, unsigned code)
{
	struct guest *g = arg;

	(void)code;
	stream_close(&g->list, STREAM_CANCELLED);
	buf_fini(&g->out);
}

static void
on_list_writable(void *arg)
{
	peer_server_flush(arg);
}

/* Ignores data; the end of the stream ends the list. */
static void
on_list_readable(void *arg)
{
	struct guest *g = arg;
	const void *data;
	size_t n;

	while ((n = stream_peek(g->list, &data)) > 0)
		stream_consume(g->list, n);
	if (stream_eof(g->list)) {
		stream_end(g->list);
		stream_close(&g->list, STREAM_DONE);
	}
}

static const struct stream_events list_events = {
	.readable = on_list_readable,
	.writable = on_list_writable,
	.reset = on_list_reset,
};

/* Connects back to the replica's source address: so new replicas are known before a name resolves
 * to them. */
static void
learn_address(struct guest *g, const struct stream_request *request)
{
	unsigned long port = strtoul(stream_field_of(request, "edgeway-port"), NULL, 10);
	const char *id = stream_field_of(request, "edgeway-hub");

	if (port == 0 || port > UINT16_MAX || strcmp(id, g->of->id) == 0 || g->from != NULL)
		return;
	if (g->addr.sa.sa_family == AF_INET)
		g->addr.in.sin_port = htons((uint16_t)port);
	else
		g->addr.in6.sin6_port = htons((uint16_t)port);
	g->from = peers_at(g->of, &g->addr);
	if (g->from != NULL)
		g->from->guests++;
}

static unsigned
begin_list(struct guest *g, struct stream *st, const struct stream_request *request,
	const char **reason)
{
	struct peers *p = g->of;
	const char *name = stream_field_of(request, "edgeway-name");

	*reason = "the list is told already";
	if (g->list != NULL)
		return 400;
	*reason = "who asks is not said";
	if (!peer_proto_id_ok(stream_field_of(request, "edgeway-hub")) || !peer_proto_name_ok(name))
		return 400;
	*reason = "this hub stops";
	if (p->drain_ms != 0)
		return 503;
	snprintf(g->name, sizeof g->name, "%s", name);
	g->list = st;
	stream_accept(st, &list_events, g);
	stream_answer(st, 200, "");
	peer_proto_hub(&g->out, p->id, p->name);
	tunnels_each(p->config.tunnels, add_holds, &g->out);
	p->config.joined(p->config.arg, add_joined, &g->out);
	p->config.declared(p->config.arg, NULL, add_declared, &g->out);
	presence_each(p->config.presence, add_presence, &g->out);
	if (p->trouble[0] != '\0')
		peer_proto_trouble(&g->out, p->trouble);
	peer_proto_say(&g->out, PEER_SAYS_WHOLE, "", 0);
	tell_on(g);
	learn_address(g, request);
	return 0;
}

/* --- life cycle ----------------------------------------------------------------------------- */

static unsigned
peers_rendezvous(struct guest *g, struct stream *st, const struct stream_request *request,
	const char **reason)
{
	const struct peers_config *c = &g->of->config;

	if (*stream_field_of(request, RENDEZVOUS_ADDRESS) != '\0')
		return c->came(c->arg, st, request, reason);
	*reason = c->ration(c->arg, stream_field_of(request, RENDEZVOUS_NODE),
		stream_field_of(request, "edgeway-node"));
	return *reason != NULL ? 429 : trip_begin(g, st, request, reason);
}

static unsigned
on_opened(void *arg, struct stream *st, const struct stream_request *request, const char **reason)
{
	if (strcmp(request->authority, "nodes") == 0)
		return begin_list(arg, st, request, reason);
	if (strcmp(request->authority, HEALTH_KIND) == 0)
		return asked_begin(arg, st, request, reason);
	if (strcmp(request->authority, RENDEZVOUS_AUTHORITY) == 0)
		return peers_rendezvous(arg, st, request, reason);
	return trip_begin(arg, st, request, reason);
}

static void
on_ended(void *arg, int rc, const char *why)
{
	struct guest *g = arg;

	(void)rc;
	log_debug("hub", "a replica's connection has ended peer=%s address=%s why=\"%s\"", g->name,
		g->address, why);
	guest_free(g);
}

static const struct session_events session_events = {.opened = on_opened, .ended = on_ended};

static void
on_shaken(struct guest *g)
{
	struct peers *p = g->of;
	struct session_setup setup = {
		.loop = p->config.loop,
		.role = SESSION_SERVER,
		.budget = &p->budget,
		.slot = fair_share_slot_of(&g->addr, p->seed),
		.limits = &p->limits,
		.udp = true, /* if the node supports it */
		.events = &session_events,
		.arg = g,
	};
	struct session *session;

	if (p->n_guests >= PEERS_GUESTS_MOST) {
		turn_away(g, "too many replicas are connected");
		return;
	}
	g->ends_s = tls_stream_peer_ends(g->tls, g->serial);
	if (p->config.revoked(p->config.arg, g->serial)) {
		turn_away(g, "its certificate was revoked");
		return;
	}
	setup.wire = transport_tls(&g->tls);
	if (session_new(&setup, &session) < 0) {
		turn_away(g, "no HTTP/2 session can be made");
		return;
	}
	TAILQ_REMOVE(&p->handshakes, g, link);
	preauth_leave(&g->place);
	p->n_guests++;
	g->session = session;
	TAILQ_INSERT_TAIL(&p->guests, g, link);
	g->since_ms = loop_now_ms(p->config.loop);
}

static void
on_handshake(void *arg, struct tls_stream *stream, const char *why)
{
	struct guest *g = arg;

	g->handshake = NULL;
	g->tls = stream;
	if (stream != NULL)
		on_shaken(g);
	else
		turn_away(g, why);
}

static void
guest_on_dropped(void *arg)
{
	turn_away(arg, "its place was needed: too many handshakes are under way");
}

static const char *
guest_objection(struct peers *p, struct guest *g)
{
	if (p->names == NULL)
		return "it dials this hub, whose configuration names no peers: set peers here as "
		       "there";
	if (p->server == NULL || p->drain_ms != 0)
		return p->server == NULL ? "this hub is not ready" : "this hub stops";
	g->place = (struct preauth_conn){.drop = guest_on_dropped, .arg = g};
	return preauth_enter(p->config.preauth, &g->place, &g->addr, g->since_ms)
		? NULL
		: "too many handshakes are under way";
}

void
peers_adopt(struct peers *p, int fd)
{
	struct guest *g = xcalloc(1, sizeof *g);
	const char *why;

	g->of = p;
	g->since_ms = loop_now_ms(p->config.loop);
	g->addr.len = sizeof g->addr.in6;
	buf_init(&g->out, BUF_UNLIMITED);
	if (getpeername(fd, &g->addr.sa, &g->addr.len) < 0)
		snprintf(g->address, sizeof g->address, "?");
	else
		addr_text(&g->addr, g->address);
	why = guest_objection(p, g);
	TAILQ_INSERT_TAIL(&p->handshakes, g, link);
	if (why != NULL) {
		close(fd);
		turn_away(g, why);
		return;
	}
	g->handshake = tls_handshake_new(&(struct tls_handshake_setup){
		.loop = p->config.loop,
		.workers = p->config.workers,
		.fd = fd,
		.ctx = p->server,
		.alpn = PEER_ALPN,
		.proof = TLS_HUB,
		.from = &g->addr,
		.place = &g->place,
		.done = on_handshake,
		.arg = g,
	});
}

/* The list ends with a message; forwarded streams go on. */
void
guest_leave(struct guest *g)
{
	if (g->list != NULL) {
		peer_proto_say(&g->out, PEER_SAYS_LEAVING, "", 0);
		peer_server_flush(g);
		stream_end(g->list);
	}
	session_drain(g->session);
}
