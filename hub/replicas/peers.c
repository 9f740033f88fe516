#include "hub/replicas/peers_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/log.h"
#include "model/health.h"

enum {
	STREAMS_MOST = 8192,
	SWEEP_MS = 1000,
	FORGET_MS = 10 * 60 * 1000,
	FIRST_MS = 100,
	WORDS_MS = 500, /* by then a replica has read that this hub leaves, or never will */
};

/* --- the list of replicas ------------------------------------------------------------------- */

static void
peer_free(struct peer *peer)
{
	struct peers *p = peer->of;

	TAILQ_REMOVE(&p->all, peer, link);
	p->n_all--;
	peer_close(peer);
	timer_free(&peer->retry);
	free(peer);
}

/* A connection, open or leaving, keeps the peer; an attempt to connect does not. */
void
peers_release(struct peer *peer)
{
	if (peer->names == 0 && peer->guests == 0 && peer->now == NULL &&
		TAILQ_EMPTY(&peer->leaving))
		peer_free(peer);
}

static void
on_retry(void *arg)
{
	struct peer *peer = arg;

	if (peer->names == 0 && peer->guests == 0)
		peers_release(peer);
	else
		peer_dial(peer);
}

static bool
same_addr(const struct addr *a, const struct addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family || addr_port(a) != addr_port(b))
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	return memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof a->in6.sin6_addr) == 0;
}

struct peer *
peers_at(struct peers *p, const struct addr *addr)
{
	struct peer *peer;

	TAILQ_FOREACH(peer, &p->all, link) {
		if (same_addr(&peer->addr, addr))
			return peer;
	}
	if (p->n_all >= PEERS_MOST) {
		log_limited(LOG_LEVEL_WARN, 6, "hub", "more than %d replicas are not asked",
			PEERS_MOST);
		return NULL;
	}
	peer = xcalloc(1, sizeof *peer);
	peer->of = p;
	peer->addr = *addr;
	addr_text(addr, peer->address);
	peer->backoff_ms = FIRST_MS;
	TAILQ_INIT(&peer->leaving);
	peer->retry = timer_new(p->config.loop, on_retry, peer);
	timer_start(peer->retry, 0, 0);
	TAILQ_INSERT_TAIL(&p->all, peer, link);
	p->n_all++;
	return peer;
}

static void
on_found(void *arg, size_t name, const struct addr *addrs, size_t n)
{
	struct peers *p = arg;
	uint64_t bit = (uint64_t)1 << name;
	struct peer *peer, *next;

	TAILQ_FOREACH(peer, &p->all, link) {
		peer->names &= ~bit;
	}
	for (size_t i = 0; i < n; i++)
		if ((peer = peers_at(p, &addrs[i])) != NULL)
			peer->names |= bit;
	for (peer = TAILQ_FIRST(&p->all); peer != NULL; peer = next) {
		next = TAILQ_NEXT(peer, link);
		peers_release(peer);
	}
}

static char *
one_text(const char *const *names)
{
	auto_buf struct buf all;

	buf_init(&all, BUF_UNLIMITED);
	for (; *names != NULL; names++)
		buf_printf(&all, "%s,", *names);
	return buf_take_str(&all);
}

int
peers_configure(struct peers *p, const char *const *names, struct err *err)
{
	struct peer_names_config config = {
		.loop = p->config.loop,
		.names = names,
		.port = p->config.port,
		.found = on_found,
		.arg = p,
	};
	struct peer_names *fresh = NULL;
	auto_free char *text = one_text(names);
	struct peer *peer, *next;
	struct guest *g;
	int rc;

	if (p->configured != NULL && strcmp(p->configured, text) == 0)
		return 0;
	rc = names[0] != NULL ? peer_names_new(&config, &fresh, err) : 0;
	if (rc < 0)
		return rc;
	free(p->configured);
	p->configured = take_ptr(&text);
	peer_names_free(&p->names);
	p->names = fresh;
	while (fresh == NULL &&
		((g = TAILQ_FIRST(&p->guests)) != NULL ||
			(g = TAILQ_FIRST(&p->handshakes)) != NULL))
		guest_free(g);
	for (peer = TAILQ_FIRST(&p->all); peer != NULL; peer = next) {
		next = TAILQ_NEXT(peer, link);
		peer->names = 0; /* the addresses of the new names will be marked again soon */
		if (fresh == NULL)
			peer_leave(peer);
		if (fresh == NULL || peer->now == NULL)
			peers_release(peer);
	}
	return 0;
}

void
peers_use(struct peers *p, struct ssl_ctx_st *server, struct ssl_ctx_st *client)
{
	bool another = p->client != NULL && p->client != client;
	struct peer *peer, *next;

	p->server = server;
	p->client = client;
	if (p->began_ms == 0)
		p->began_ms = loop_now_ms(p->config.loop);
	for (peer = TAILQ_FIRST(&p->all); peer != NULL; peer = next) {
		next = TAILQ_NEXT(peer, link);
		if (another)
			peer_renew(peer);
		else
			peer_dial(peer);
	}
}

bool
peers_any(const struct peers *p)
{
	return p->names != NULL;
}

bool
peers_settled(const struct peers *p)
{
	const struct peer *peer;

	if (p->names == NULL)
		return true;
	if (p->began_ms == 0)
		return false;
	if (loop_now_ms(p->config.loop) - p->began_ms >= PEERS_SETTLE_MS)
		return true;
	if (!peer_names_asked(p->names))
		return false;
	TAILQ_FOREACH(peer, &p->all, link) {
		if (!peer->tried)
			return false;
	}
	return true;
}

/* --- the nodes of the replicas -------------------------------------------------------------- */

/* If two hubs have the node, the newer tunnel counts, or, if they are equally old, that of the hub
 * with the higher id: so both hubs agree. */
static void
peers_yield(struct peers *p, const char *node)
{
	uint64_t epoch, mine = tunnels_epoch(p->config.tunnels, node);
	const struct line *l = tunnel_directory_holder(p->roster, node, &epoch);

	if (mine == 0 || l == NULL || epoch < mine)
		return;
	if (epoch > mine || strcmp(l->id, p->id) > 0)
		tunnels_yield(p->config.tunnels, node, epoch + 1);
}

void
peers_changed(struct peers *p, const char *node)
{
	if (node != NULL)
		peers_yield(p, node);
	p->config.changed(p->config.arg, node);
}

void
peers_tell(struct peers *p, const char *node)
{
	struct guest *g, *next;

	trips_look(p);
	if (p->names == NULL)
		return;
	if (!tunnels_have(p->config.tunnels, node))
		tunnel_directory_lost(p->roster, node, loop_now_ms(p->config.loop));
	for (g = TAILQ_FIRST(&p->guests); g != NULL; g = next) {
		next = TAILQ_NEXT(g, link);
		guest_tell(g, node);
	}
}

void
peers_tell_declared(struct peers *p, const char *node)
{
	struct guest *g, *next;

	for (g = TAILQ_FIRST(&p->guests); g != NULL; g = next) {
		next = TAILQ_NEXT(g, link);
		guest_tell_declared(g, node);
	}
}

void
peers_tell_joined(struct peers *p, const char *node)
{
	struct guest *g, *next;

	for (g = TAILQ_FIRST(&p->guests); g != NULL; g = next) {
		next = TAILQ_NEXT(g, link);
		guest_tell_joined(g, node);
	}
}

void
peers_tell_presence(struct peers *p, const char *node)
{
	struct presence_row row;
	struct guest *g, *next;

	if (!presence_find(p->config.presence, node, &row))
		return;
	for (g = TAILQ_FIRST(&p->guests); g != NULL; g = next) {
		next = TAILQ_NEXT(g, link);
		guest_tell_presence(g, &row);
	}
}

void
peers_tell_trouble(struct peers *p, const char *text)
{
	char before[sizeof p->trouble];
	struct guest *g, *next;

	memcpy(before, p->trouble, sizeof before);
	snprintf(p->trouble, sizeof p->trouble, "%s", text);
	if (strcmp(before, p->trouble) == 0)
		return;
	for (g = TAILQ_FIRST(&p->guests); g != NULL; g = next) {
		next = TAILQ_NEXT(g, link);
		guest_tell_trouble(g);
	}
}

uint64_t
peers_epoch(const struct peers *p, const char *node)
{
	uint64_t epoch;

	tunnel_directory_holder(p->roster, node, &epoch);
	return epoch;
}

uint64_t
peers_claimed(const struct peers *p, const char *node)
{
	return tunnel_directory_claimed(p->roster, node);
}

bool
peers_know(const struct peers *p, const char *node)
{
	return tunnel_directory_knows(p->roster, node);
}

bool
peers_at_address(const struct peers *p, const struct in6_addr *ip)
{
	const struct peer *peer;
	struct in6_addr its;

	TAILQ_FOREACH(peer, &p->all, link)
		if (peer->state != PEER_ITSELF && addr_ip(&peer->addr, &its) &&
			memcmp(&its, ip, sizeof its) == 0)
			return true;
	return false;
}

void
peers_named(const struct peers *p, void (*fn)(void *arg, const char *node), void *arg)
{
	tunnel_directory_named(p->roster, fn, arg);
}

bool
peers_await(const struct peers *p, const char *node)
{
	return p->names != NULL &&
		(!peers_settled(p) ||
			tunnel_directory_awaits(p->roster, node, loop_now_ms(p->config.loop)));
}

void
peers_doubt(struct peers *p, const char *node, uint64_t epoch)
{
	p->misdirected++;
	tunnel_directory_doubt(p->roster, node, epoch, loop_now_ms(p->config.loop));
}

/* --- streams -------------------------------------------------------------------------------- */

static bool
line_answers(const struct peer *peer)
{
	return peer->now != NULL && !session_is_silent(peer->now->session);
}

/* Returns true if a replica cannot be reached from here. Others may reach it. */
static bool
is_cut_off(const struct peers *p)
{
	const struct peer *peer;

	TAILQ_FOREACH(peer, &p->all, link) {
		if ((peer->names != 0 || peer->guests > 0) && peer->state != PEER_ITSELF &&
			peer->state != PEER_TWIN && !line_answers(peer))
			return true;
	}
	return false;
}

/* The intermediate replica for this turn; NULL: there is none, or none is needed. */
static struct line *
line_between(const struct peers *p, unsigned turn)
{
	const struct peer *peer;

	if (!is_cut_off(p))
		return NULL;
	TAILQ_FOREACH(peer, &p->all, link) {
		if (line_answers(peer) && turn-- == 0)
			return peer->now;
	}
	return NULL;
}

int
peers_open(struct peers *p, struct peers_ask *ask)
{
	struct line *l = tunnel_directory_holder(p->roster, ask->node, &ask->epoch);
	bool between = l == NULL;

	if (between)
		l = line_between(p, ask->between);
	return peers_open_at(p, l, ask, between);
}

void
peers_charge(const struct peers *p, struct stream *st, const struct stream_request *request,
	const char *node)
{
	static const char of_node[] = "node:";
	const char *caller = stream_field_of(request, "edgeway-caller");

	if (strncmp(caller, of_node, strlen(of_node)) == 0)
		node = caller + strlen(of_node);
	stream_charge(st, fair_share_slot(node, strlen(node), p->seed));
}

int
peers_open_at(struct peers *p, struct line *l, struct peers_ask *ask, bool between)
{
	struct stream_field fields[STREAM_FIELDS_MAX];
	struct stream_request request = {
		.authority = ask->request->authority,
		.udp = ask->request->udp,
		.fields = fields,
		.n_fields = ask->request->n_fields,
	};
	int rc;

	if (l == NULL)
		return -ENOTCONN;
	if (request.n_fields + 3 > STREAM_FIELDS_MAX)
		return -EINVAL;
	memcpy(fields, ask->request->fields, request.n_fields * sizeof *fields);
	fields[request.n_fields++] = (struct stream_field){"edgeway-node", ask->node};
	fields[request.n_fields++] = (struct stream_field){"edgeway-hop", "1"};
	if (between)
		fields[request.n_fields++] = (struct stream_field){PEER_BETWEEN, "1"};
	rc = session_open(l->session, &request, ask->events, ask->to, &ask->stream);
	ask->at = l->name;
	p->asked += rc == 0;
	if (rc == 0)
		peers_charge(p, ask->stream, ask->request, ask->node);
	return rc == -ESHUTDOWN ? -ENOTCONN : rc;
}

/* The turn-th open connection: first the holder's, then the others'. NULL: there are fewer. */
static struct line *
line_in_turn(struct peers *p, const char *node, size_t turn)
{
	uint64_t epoch;
	struct line *holder = tunnel_directory_holder(p->roster, node, &epoch);
	const struct peer *peer;
	size_t nth = holder != NULL;

	if (holder != NULL && turn == 0)
		return holder;
	TAILQ_FOREACH(peer, &p->all, link) {
		if (peer->now != NULL && peer->now != holder && nth++ == turn)
			return peer->now;
	}
	return NULL;
}

int
peers_ask_health(struct peers *p, struct peers_ask *ask, const char *service, size_t turn)
{
	struct line *l = line_in_turn(p, ask->node, turn);
	const struct stream_field fields[] = {
		{"edgeway-node", ask->node}, {"edgeway-service", service}};
	const struct stream_request request = {
		.authority = HEALTH_KIND, .fields = fields, .n_fields = ARRAY_LEN(fields)};

	if (l == NULL)
		return -ENOENT;
	ask->at = l->name;
	return session_open(l->session, &request, ask->events, ask->to, &ask->stream);
}

const char *
peers_id(const struct peers *p)
{
	return p->id;
}

int
peers_ask_hub(struct peers *p, struct peers_ask *ask, const char *id)
{
	const struct peer *peer;

	TAILQ_FOREACH(peer, &p->all, link)
		if (peer->now != NULL && strcmp(peer->now->id, id) == 0)
			return session_open(peer->now->session, ask->request, ask->events, ask->to,
				&ask->stream);
	return -ENOENT;
}

/* --- life cycle ----------------------------------------------------------------------------- */

static void
on_drained(void *arg)
{
	struct peers *p = arg;
	void (*done)(void *) = p->done;

	p->done = NULL;
	if (done != NULL)
		done(p->done_arg);
}

void
peers_say_drained(struct peers *p)
{
	uint64_t waited = p->drain_ms != 0 ? loop_now_ms(p->config.loop) - p->drain_ms : 0;
	const struct peer *peer;
	const struct guest *g;
	bool told = true;

	if (p->done == NULL)
		return;
	TAILQ_FOREACH(g, &p->guests, link) {
		told &= g->list == NULL;
	}
	TAILQ_FOREACH(peer, &p->all, link) {
		if (peer_streams(peer) > 0)
			return;
	}
	if (p->n_trips == 0)
		timer_start(p->drained, told || waited >= WORDS_MS ? 0 : WORDS_MS - waited, 0);
}

/* Forgets names of nodes that no replica knows any more. */
static void
peers_forget(struct peers *p)
{
	uint64_t now = loop_now_ms(p->config.loop);
	size_t n;

	if (now - p->forgot_ms < FORGET_MS)
		return;
	p->forgot_ms = now;
	n = tunnel_directory_forget(p->roster, now, p->config.wanted, p->config.arg);
	if (n == 0)
		return;
	log_info("hub",
		"nodes are forgotten that have no Node, and that no replica knows any more "
		"nodes=%zu",
		n);
	peers_changed(p, NULL);
}

void
peers_check(struct peers *p)
{
	struct guest *g, *next_guest;
	struct peer *peer, *next;

	for (g = TAILQ_FIRST(&p->guests); g != NULL; g = next_guest) {
		next_guest = TAILQ_NEXT(g, link);
		if (!p->config.revoked(p->config.arg, g->serial))
			continue;
		log_warn("hub",
			"a replica's connection is cut: its certificate was revoked peer=%s "
			"address=%s",
			g->name, g->address);
		guest_free(g);
	}
	for (peer = TAILQ_FIRST(&p->all); peer != NULL; peer = next) {
		next = TAILQ_NEXT(peer, link);
		peer_check(peer);
	}
}

const char *
peers_own_name(const struct peers *p)
{
	return p->name;
}

bool
peers_serial(const struct peers *p, const char *name, char serial[PKI_SERIAL_TEXT])
{
	const struct peer *peer;

	TAILQ_FOREACH(peer, &p->all, link) {
		if (peer->now != NULL && strcmp(peer->now->name, name) == 0) {
			memcpy(serial, peer->now->serial, sizeof peer->now->serial);
			return true;
		}
	}
	return false;
}

/* Closes connections whose certificate has expired: the other replica got a newer certificate long
 * before, and uses another connection. */
static void
on_sweep(void *arg)
{
	struct peers *p = arg;
	int64_t now_s = (int64_t)(wall_ms() / 1000);
	struct guest *g, *next;

	peers_forget(p);
	for (g = TAILQ_FIRST(&p->guests); g != NULL; g = next) {
		next = TAILQ_NEXT(g, link);
		if (now_s >= g->ends_s) {
			log_warn("hub",
				"a replica's connection is cut: its certificate has expired "
				"peer=%s",
				g->name);
			guest_free(g);
		}
	}
}

static void
set_name(struct peers *p)
{
	uint8_t random[(PEER_ID_TEXT - 1) / 2];
	char host[256] = "";

	random_bytes(random, sizeof random);
	for (size_t i = 0; i < sizeof random; i++)
		snprintf(p->id + 2 * i, 3, "%02x", random[i]);
	gethostname(host, sizeof host - 1);
	snprintf(p->name, sizeof p->name, "%.*s", (int)sizeof p->name - 1, host);
	if (!peer_proto_name_ok(p->name))
		snprintf(p->name, sizeof p->name, "hub-%.8s", p->id);
}

struct peers *
peers_new(const struct peers_config *config)
{
	struct peers *p = xcalloc(1, sizeof *p);

	p->config = *config;
	random_bytes(&p->seed, sizeof p->seed);
	p->budget = (struct session_budget){
		.limit = PEERS_MEMORY, .shares = fair_share_new(PEERS_MEMORY)};
	p->limits = (struct session_limits){
		.max_streams = STREAMS_MOST, .ping_ms = PEERS_PING_MS, .dead_ms = PEERS_DEAD_MS};
	p->roster = tunnel_directory_new();
	TAILQ_INIT(&p->all);
	TAILQ_INIT(&p->handshakes);
	TAILQ_INIT(&p->guests);
	LIST_INIT(&p->trips);
	LIST_INIT(&p->asked_here);
	set_name(p);
	p->drained = timer_new(config->loop, on_drained, p);
	p->sweep = timer_new(config->loop, on_sweep, p);
	timer_start(p->sweep, SWEEP_MS, SWEEP_MS);
	return p;
}

static void
peers_silent(void *arg, const char *node)
{
	(void)arg;
	(void)node;
}

void
peers_free(struct peers **out)
{
	struct peers *p = *out; /* set to NULL last: owners of ending streams may call peers_open */
	struct guest *g;

	if (p == NULL)
		return;
	p->done = NULL;
	p->config.changed = peers_silent;
	p->drain_ms = MAX(loop_now_ms(p->config.loop), 1u);
	peer_names_free(&p->names);
	trips_free(p);
	asked_free_all(p);
	while ((g = TAILQ_FIRST(&p->handshakes)) != NULL)
		guest_free(g);
	while ((g = TAILQ_FIRST(&p->guests)) != NULL)
		guest_free(g);
	while (!TAILQ_EMPTY(&p->all))
		peer_free(TAILQ_FIRST(&p->all));
	tunnel_directory_free(&p->roster);
	timer_free(&p->sweep);
	timer_free(&p->drained);
	fair_share_free(&p->budget.shares);
	free(p->configured);
	free(p);
	*out = NULL;
}

void
peers_drain(struct peers *p, void (*done)(void *arg), void *arg)
{
	struct guest *g, *next;
	struct peer *peer;

	p->drain_ms = MAX(loop_now_ms(p->config.loop), 1u);
	p->done = done;
	p->done_arg = arg;
	while ((g = TAILQ_FIRST(&p->handshakes)) != NULL)
		guest_free(g);
	for (g = TAILQ_FIRST(&p->guests); g != NULL; g = next) {
		next = TAILQ_NEXT(g, link);
		guest_leave(g);
	}
	TAILQ_FOREACH(peer, &p->all, link) {
		peer_leave(peer);
	}
	peers_say_drained(p);
}
