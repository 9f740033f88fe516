/* A renewal opens a second connection (peer->dialling) beside the one in use (peer->now). It takes
 * over only when its list of nodes is complete, so that no claim is lost in between; the former one
 * finishes its streams in `leaving`. */
#include "hub/replicas/peers_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/log.h"

enum {
	CONNECT_MS = 3000, /* SYNs at 0 and 1 s */
	SHAKE_MS = 5000,
	LIST_MS = 10000, /* until the list is complete */
	FIRST_MS = 100,
	MOST_MS = 1500,
	REFUSED_MOST_MS = 10000, /* the replica responds, but not as expected */
	TWIN_MS = 30000,
	FIELDS_ROOM = 24,
};

/* Discards its claims, and what nodes have reported to it. */
static void
peer_client_forget(struct line *l, bool taken_over)
{
	const struct peers_config *c = &l->of->of->config;
	const struct peer_said all = {.word = PEER_SAYS_FORGETS};
	struct line *works = l->of->now;
	char why[PEER_NAME_TEXT + 64];

	if (l->claims == NULL)
		return;
	/* If a renewal has failed, the connection that it should have replaced takes over its
	 * reports. */
	if (works != NULL && works != l && works->claims != NULL) {
		presence_hand_over(c->presence, l, works);
		c->handed_over(c->arg, l, works);
		tunnel_directory_leave(&l->claims, loop_now_ms(c->loop), true);
		return;
	}
	snprintf(why, sizeof why, "its hub %s %s", l->name,
		l->stops ? "stopped" : "cannot be reached from the one that is asked");
	presence_lost(c->presence, l, why, (int64_t)wall_ms());
	tunnel_directory_leave(&l->claims, loop_now_ms(c->loop), taken_over);
	c->heard(c->arg, l, &all);
}

static void
line_free(struct line *l)
{
	struct peers *p = l->of->of;
	bool claimed = l->claims != NULL;

	if (l->watch != NULL)
		watch_stop(&l->watch);
	timer_free(&l->deadline);
	if (l->fd >= 0)
		close(l->fd);
	peer_client_forget(l, false);
	stream_close(&l->list, STREAM_CANCELLED);
	tls_stream_free(&l->tls);
	session_free(&l->session);
	buf_fini(&l->in);
	free(l);
	if (claimed)
		peers_changed(p, NULL);
	peers_say_drained(p);
}

static void
peer_client_retry(struct peer *peer, uint64_t most_ms)
{
	uint64_t random;

	peer->state = PEER_WAITING;
	random_bytes(&random, sizeof random);
	timer_start(peer->retry, random % (peer->backoff_ms + 1), 0);
	peer->backoff_ms = MIN(peer->backoff_ms * 2, most_ms);
}

/* A connection attempt has failed. */
static void
peer_client_fail(struct line *l, uint64_t most_ms, const char *why)
{
	struct peer *peer = l->of;
	struct peers *p = peer->of;
	bool first = !peer->tried;

	peer->tried = true;
	if (!peer->away_told || strcmp(peer->error, why) != 0)
		log_limited(LOG_LEVEL_WARN, 20, "hub",
			"a replica cannot be asked for nodes; trying again (is it running, does it "
			"listen there, has it the same CA?) peer=%s address=%s error=\"%s\"",
			peer->name[0] != '\0' ? peer->name : "?", peer->address, why);
	peer->away_told = true;
	if (why != peer->error)
		snprintf(peer->error, sizeof peer->error, "%s", why);
	peer->dialling = NULL;
	line_free(l);
	if (peer->now == NULL)
		peer_client_retry(peer, most_ms);
	else
		timer_start(peer->retry, most_ms, 0); /* the timer of a renewal */
	peers_release(peer);
	if (first)
		peers_changed(p, NULL); /* those that wait for its answer need not wait any more */
}

/* The connection gets no new streams; open ones go on. */
static void
peer_client_leave(struct line *l, bool taken_over)
{
	struct peer *peer = l->of;
	bool claimed = l->claims != NULL;

	peer->now = NULL;
	l->leaving = true;
	TAILQ_INSERT_TAIL(&peer->leaving, l, link);
	peer_client_forget(l, taken_over);
	stream_close(&l->list, STREAM_CANCELLED);
	session_drain(l->session);
	if (claimed && !taken_over)
		peers_changed(peer->of, NULL);
}

static void
on_ended(void *arg, int rc, const char *why)
{
	struct line *l = arg;
	struct peer *peer = l->of;
	char text[200];

	(void)rc;
	snprintf(text, sizeof text, "%s", why);
	if (l == peer->dialling) {
		peer_client_fail(l, REFUSED_MOST_MS, text);
		return;
	}
	if (l->leaving) {
		TAILQ_REMOVE(&peer->leaving, l, link);
	} else {
		peer->now = NULL;
		snprintf(peer->error, sizeof peer->error, "%s", text);
		log_warn("hub",
			"lost a replica; its nodes can be reached once they have come to another "
			"one peer=%s address=%s nodes=%zu why=\"%s\"",
			l->name, peer->address, tunnel_directory_claims(l->claims), text);
		peer->away_told = true;
		peer_client_retry(peer, MOST_MS);
	}
	line_free(l);
	peers_release(peer);
}

/* The replica stops or closes this connection, or all streams that it can carry were opened. */
static void
on_draining(void *arg)
{
	struct line *l = arg;
	struct peer *peer = l->of;

	if (l != peer->now)
		return;
	log_info("hub", "%s peer=%s address=%s",
		l->stops ? "a replica stops"
			 : "a connection to a replica takes no more streams; making another one",
		l->name, peer->address);
	peer_client_leave(l, false);
	peer_client_retry(peer, MOST_MS);
}

/* Its claims stay; until it answers again, streams take other routes. */
static void
on_silent(void *arg, bool is_silent)
{
	struct line *l = arg;
	struct peers *p = l->of->of;

	if (l != l->of->now || l->claims == NULL)
		return;
	log_limited(LOG_LEVEL_WARN, 20, "hub", "%s peer=%s address=%s nodes=%zu",
		is_silent ? "a replica does not answer; streams go other ways"
			  : "a replica answers again",
		l->name, l->of->address, tunnel_directory_claims(l->claims));
	tunnel_directory_suspend(l->claims, is_silent);
	trips_look(p);
	peers_changed(p, NULL);
}

static const struct session_events session_events = {
	.draining = on_draining, .silent = on_silent, .ended = on_ended};

/* --- the replica's reports ------------------------------------------------------------------ */

static struct peer *
other_with(const struct peer *peer, const char *id)
{
	struct peer *at;

	TAILQ_FOREACH(at, &peer->of->all, link) {
		if (at != peer && at->now != NULL && strcmp(at->now->id, id) == 0)
			return at;
	}
	return NULL;
}

/* The address does not lead to a new replica: do not connect again for a while, or never. */
static void
settle_as(struct line *l, enum peer_state state)
{
	struct peer *peer = l->of;

	peer->tried = true;
	peer->away_told = false;
	peer->error[0] = '\0';
	peer->state = state;
	peer->dialling = NULL;
	line_free(l);
	if (state == PEER_TWIN)
		timer_start(peer->retry, TWIN_MS, 0);
	peers_release(peer);
}

/* False: the connection is gone. */
static bool
on_hub(struct line *l, const struct peer_said *said)
{
	struct peer *peer = l->of;

	if (l->claims != NULL || l->id[0] != '\0')
		return true;
	if (strcmp(said->id, peer->of->id) == 0) {
		settle_as(l, PEER_ITSELF);
		return false;
	}
	if (other_with(peer, said->id) != NULL) {
		settle_as(l, PEER_TWIN);
		return false;
	}
	memcpy(l->id, said->id, sizeof l->id);
	memcpy(l->name, said->name, sizeof l->name);
	memcpy(peer->name, said->name, sizeof peer->name);
	peer->trouble[0] = '\0';
	l->claims = tunnel_directory_join(peer->of->roster, l, l->id);
	return true;
}

/* False: the connection is gone. */
static bool
on_whole(struct line *l)
{
	struct peer *peer = l->of;
	struct line *former = peer->now;

	if (l != peer->dialling)
		return true;
	if (former == NULL && other_with(peer, l->id) != NULL) {
		settle_as(l, PEER_TWIN);
		return false;
	}
	timer_cancel(l->deadline);
	timer_cancel(peer->retry);
	if (former != NULL)
		peer_client_leave(former, true);
	peer->dialling = NULL;
	peer->now = l;
	peer->state = PEER_OPEN;
	peer->tried = true;
	peer->away_told = false;
	peer->backoff_ms = FIRST_MS;
	peer->error[0] = '\0';
	log_info("hub", "%s peer=%s address=%s nodes=%zu",
		former != NULL ? "asks a replica with the new certificate"
			       : "a replica tells of its nodes",
		l->name, peer->address, tunnel_directory_claims(l->claims));
	peers_changed(peer->of, NULL);
	return true;
}

static void
heed_presence(struct line *l, const struct peer_said *said)
{
	const struct presence_row row = {
		.node = said->node,
		.address = said->address,
		.version = said->version,
		.words = said->words,
		.since_ms = MIN(said->since_ms, (int64_t)wall_ms()), /* its clock may be ahead */
		.connected = said->word == PEER_SAYS_THERE,
	};

	presence_heard(l->of->of->config.presence, l, l->name, &row, l == l->of->now);
}

/* 0; -EPROTO with `why`; 1: the connection is gone. */
static int
peer_client_heed(struct line *l, struct peer_said *said)
{
	struct peers *p = l->of->of;
	uint64_t now = loop_now_ms(p->config.loop);

	if (said->word == PEER_SAYS_HUB)
		return on_hub(l, said) ? 0 : 1;
	if (said->word == PEER_SAYS_OTHER || (l->id[0] != '\0' && l->claims == NULL))
		return 0; /* it has announced that it leaves */
	said->why = "it does not say first who it is";
	if (l->claims == NULL)
		return -EPROTO;
	said->why = "more nodes than a hub can have";
	if (said->word == PEER_SAYS_JOINED)
		return tunnel_directory_note(l->claims, said->node, now) < 0 ? -EPROTO : 0;
	if (said->word == PEER_SAYS_DECLARES || said->word == PEER_SAYS_REACH ||
		said->word == PEER_SAYS_FORGETS) {
		p->config.heard(p->config.arg, l, said);
		return 0;
	}
	if (said->word == PEER_SAYS_WHOLE)
		return on_whole(l) ? 0 : 1;
	if (said->word == PEER_SAYS_THERE || said->word == PEER_SAYS_AWAY) {
		heed_presence(l, said);
		return 0;
	}
	if (said->word == PEER_SAYS_TROUBLE) {
		memcpy(l->of->trouble, said->words, sizeof l->of->trouble);
		return 0;
	}
	if (said->word == PEER_SAYS_LEAVING) {
		l->stops = true;
		peer_client_forget(l, false);
		peers_changed(p, NULL);
		return 0;
	}
	if (tunnel_directory_claim(l->claims, said->node,
		    said->word == PEER_SAYS_HOLDS ? said->epoch : 0, now) < 0)
		return -EPROTO;
	peers_changed(p, said->node);
	return 0;
}

/* Stops trusting the replica's reports, and asks again. */
static void
peer_client_distrust(struct line *l, const char *why)
{
	struct peer *peer = l->of;

	if (l == peer->dialling) {
		peer_client_fail(l, REFUSED_MOST_MS, why);
		return;
	}
	if (l->leaving)
		return;
	log_limited(LOG_LEVEL_WARN, 20, "hub",
		"a replica's list of nodes has ended; asking anew peer=%s address=%s why=\"%s\"",
		l->name, peer->address, why);
	snprintf(peer->error, sizeof peer->error, "%s", why);
	peer_client_leave(l, false);
	peer_client_retry(peer, MOST_MS);
}

/* Handles the complete lines received. False: the connection is gone, or is no longer read. */
static bool
read_lines(struct line *l)
{
	struct peer_said said = {0};
	size_t used;
	int rc;

	while ((rc = peer_proto_read(buf_at(&l->in), buf_len(&l->in), &used, &said)) > 0) {
		buf_consume(&l->in, used);
		rc = peer_client_heed(l, &said);
		if (rc > 0)
			return false;
		if (rc < 0)
			break;
	}
	if (rc < 0)
		peer_client_distrust(l, said.why);
	return rc == 0;
}

static void
on_list_readable(void *arg)
{
	struct line *l = arg;
	const void *data;
	size_t n;

	while (l->list != NULL && (n = stream_peek(l->list, &data)) > 0) {
		buf_add(&l->in, data, n);
		stream_consume(l->list, n);
		if (!read_lines(l))
			return;
	}
	if (l->list == NULL || !stream_eof(l->list))
		return;
	if (l->claims == NULL && l->id[0] != '\0') { /* the replica leaves */
		stream_end(l->list);
		stream_close(&l->list, STREAM_DONE);
	} else {
		peer_client_distrust(l, "the replica ended its list");
	}
}

static void
on_list_answered(void *arg, unsigned status, const char *reason)
{
	struct line *l = arg;
	char why[STREAM_REASON_MAX + 64];

	if (status == 200)
		return;
	snprintf(why, sizeof why, "it refused (%u): %s", status, reason);
	peer_client_distrust(l, why);
}

static void
on_list_reset(void *arg, unsigned code)
{
	struct line *l = arg;

	if (code == STREAM_LOST) /* the session reports the reason */
		stream_close(&l->list, STREAM_CANCELLED);
	else
		peer_client_distrust(l, "the replica broke its list off");
}

static const struct stream_events list_events = {
	.answered = on_list_answered, .readable = on_list_readable, .reset = on_list_reset};

/* --- connecting ----------------------------------------------------------------------------- */

static void
on_shaken(struct line *l)
{
	struct peers *p = l->of->of;
	struct session_setup setup = {
		.loop = p->config.loop,
		.role = SESSION_CLIENT,
		.budget = &p->budget,
		.slot = fair_share_slot_of(&l->of->addr, p->seed),
		.limits = &p->limits,
		.patient = true,
		.events = &session_events,
		.arg = l,
	};
	char port[FIELDS_ROOM];
	const struct stream_field fields[] = {
		{"edgeway-hub", p->id}, {"edgeway-name", p->name}, {"edgeway-port", port}};
	const struct stream_request request = {
		.authority = "nodes", .fields = fields, .n_fields = ARRAY_LEN(fields)};

	tls_stream_peer_ends(l->tls, l->serial);
	if (p->config.revoked(p->config.arg, l->serial)) {
		peer_client_fail(
			l, REFUSED_MOST_MS, "the peer's certificate is refused: it was revoked");
		return;
	}
	snprintf(port, sizeof port, "%u", p->config.port);
	setup.wire = transport_tls(&l->tls);
	if (session_new(&setup, &l->session) < 0 ||
		session_open(l->session, &request, &list_events, l, &l->list) < 0) {
		peer_client_fail(l, REFUSED_MOST_MS, "no HTTP/2 session can be made");
		return;
	}
	l->since_ms = loop_now_ms(p->config.loop);
	timer_start(l->deadline, LIST_MS, 0);
}

static void
on_tls(void *arg, enum tls_event event)
{
	struct line *l = arg;
	char why[256];

	if (event == TLS_OPEN) {
		on_shaken(l);
		return;
	}
	snprintf(why, sizeof why, "%s", tls_stream_why(l->tls));
	peer_client_fail(l, REFUSED_MOST_MS, why);
}

/* The server name does not matter: the certificate must be a hub's, and the hub names itself. */
static void
shake_hands(struct line *l, int fd)
{
	struct peers *p = l->of->of;
	struct tls_setup setup = {
		.loop = p->config.loop,
		.fd = fd,
		.ctx = p->client,
		.host = "127.0.0.1",
		.alpn = PEER_ALPN,
		.proof = TLS_HUB,
		.deadline_ms = SHAKE_MS,
		.on = on_tls,
		.arg = l,
	};
	struct err err = {0};

	timer_cancel(l->deadline);
	if (tls_stream_new(&setup, &l->tls, &err) < 0)
		peer_client_fail(l, REFUSED_MOST_MS, err.text);
}

static void
on_connected(void *arg, int fd, unsigned events)
{
	struct line *l = arg;
	int error = sock_error(fd);

	(void)events;
	if (error != 0) {
		peer_client_fail(l, MOST_MS, strerror(error));
		return;
	}
	watch_stop(&l->watch);
	shake_hands(l, take_fd(&l->fd));
}

static void
on_late(void *arg)
{
	struct line *l = arg;

	peer_client_fail(l, MOST_MS,
		l->session != NULL ? "it does not say what it holds" : "it does not answer");
}

void
peer_dial(struct peer *peer)
{
	struct peers *p = peer->of;
	struct line *l;
	int rc;

	if (p->client == NULL || p->drain_ms != 0 || peer->dialling != NULL)
		return;
	l = xcalloc(1, sizeof *l);
	l->of = peer;
	l->fd = -1;
	buf_init(&l->in, BUF_UNLIMITED);
	l->deadline = timer_new(p->config.loop, on_late, l);
	peer->dialling = l;
	if (peer->now == NULL)
		peer->state = PEER_DIALLING;
	if ((rc = sock_connect(&peer->addr, 0, &l->fd)) < 0) {
		peer_client_fail(l, MOST_MS, strerror(-rc));
		return;
	}
	timer_start(l->deadline, CONNECT_MS, 0);
	l->watch = watch_start(p->config.loop, l->fd, WATCH_WRITE, on_connected, l);
}

void
peer_renew(struct peer *peer)
{
	if (peer->state == PEER_ITSELF)
		return;
	if (peer->dialling != NULL)
		line_free(take_ptr(&peer->dialling));
	peer->backoff_ms = FIRST_MS;
	peer_dial(peer);
}

void
peer_leave(struct peer *peer)
{
	timer_cancel(peer->retry);
	if (peer->dialling != NULL)
		line_free(take_ptr(&peer->dialling));
	if (peer->now != NULL)
		peer_client_leave(peer->now, false);
	peer->state = PEER_WAITING;
}

void
peer_check(struct peer *peer)
{
	const struct peers_config *c = &peer->of->config;
	struct line *l, *next;

	for (l = TAILQ_FIRST(&peer->leaving); l != NULL; l = next) {
		next = TAILQ_NEXT(l, link);
		if (!c->revoked(c->arg, l->serial))
			continue;
		TAILQ_REMOVE(&peer->leaving, l, link);
		line_free(l);
	}
	if (peer->now == NULL || !c->revoked(c->arg, peer->now->serial))
		return;
	log_warn("hub",
		"the connection to a replica is cut: its certificate was revoked peer=%s "
		"address=%s",
		peer->name, peer->address);
	snprintf(peer->error, sizeof peer->error, "its certificate was revoked");
	peer->backoff_ms = FIRST_MS;
	line_free(take_ptr(&peer->now));
	peer_client_retry(peer, REFUSED_MOST_MS);
}

void
peer_close(struct peer *peer)
{
	struct line *l;

	if (peer->dialling != NULL)
		line_free(take_ptr(&peer->dialling));
	if (peer->now != NULL)
		line_free(take_ptr(&peer->now));
	while ((l = TAILQ_FIRST(&peer->leaving)) != NULL) {
		TAILQ_REMOVE(&peer->leaving, l, link);
		line_free(l);
	}
}

/* Without the streams that carry lists of nodes. */
unsigned
peer_streams(const struct peer *peer)
{
	const struct line *l;
	unsigned n = 0;

	if (peer->now != NULL)
		n += session_stats(peer->now->session)->streams - (peer->now->list != NULL);
	TAILQ_FOREACH(l, &peer->leaving, link) {
		n += session_stats(l->session)->streams - (l->list != NULL);
	}
	return n;
}
