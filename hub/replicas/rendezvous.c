#include "hub/replicas/rendezvous.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/core/figures.h"
#include "base/core/log.h"
#include "base/tls/tls_handshake.h"
#include "hub/port/route.h"
#include "hub/replicas/peers_private.h"

enum { SPARE_MS = 10 /* so that both have time to prepare */ };

/* One node's connection, from its accept to its end. */
enum visitor_state {
	VISITOR_SHAKING, /* TLS */
	VISITOR_SILENT, /* has not said its line */
	VISITOR_ASKING, /* waits for the other node */
	VISITOR_COMING, /* waits for the asker's hub */
	VISITOR_TOLD, /* its line was answered; it closes the connection when it is done */
};

struct visitor {
	TAILQ_ENTRY(visitor) link; /* the oldest first */
	struct rendezvous *of;
	enum visitor_state state;
	struct preauth_conn place;
	struct tls_handshake *handshake; /* until it is done */
	struct tls_stream *tls;
	struct stream *stream; /* the invitation, or to the asker's hub */
	struct timer *deadline;
	struct addr from;
	size_t n;
	char in[RENDEZVOUS_LINE_MAX + 1];
	char node[MESH_NODE_MAX + 1], other[MESH_NODE_MAX + 1];
	char id[RENDEZVOUS_ID_LEN + 1], serial[PKI_SERIAL_TEXT];
};

struct attempt { /* a recent one, for the rations */
	TAILQ_ENTRY(attempt) link; /* the oldest first */
	uint64_t at_ms;
	char *node, *other;
};

struct rendezvous {
	struct rendezvous_config config;
	struct ssl_ctx_st *tls;
	struct peers *peers;
	TAILQ_HEAD(, visitor) visitors;
	TAILQ_HEAD(, attempt) attempts;
	unsigned n_attempts;
	char answer[STREAM_REASON_MAX + 1]; /* to another hub */
	uint64_t introduced, declined, limited, refused;
};

static const char rendezvous_node_rules[] =
	"the hub's access has rules for nodes: they reach each other through it";

/* --- the end -------------------------------------------------------------------------------- */

static void
visitor_free(struct visitor *v)
{
	TAILQ_REMOVE(&v->of->visitors, v, link);
	stream_close(&v->stream, STREAM_CANCELLED);
	tls_handshake_free(&v->handshake);
	tls_stream_free(&v->tls);
	preauth_leave(&v->place);
	timer_free(&v->deadline);
	free(v);
}

static void
visitor_refuse(struct visitor *v, const char *why)
{
	char from[ADDR_TEXT_MAX], clean[256];

	v->of->refused++;
	log_limited(LOG_LEVEL_WARN, 6, "hub",
		"a rendezvous connection is refused node=%s peer=%s reason=\"%s\"",
		v->node[0] != '\0' ? v->node : "?", addr_text(&v->from, from),
		log_clean(clean, sizeof clean, why));
	visitor_free(v);
}

/* It is a line in an empty socket, which takes it as a whole. */
static void
visitor_tell(struct visitor *v, const struct rendezvous_line *line)
{
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	rendezvous_line_write(line, &out);
	v->state = VISITOR_TOLD;
	stream_close(&v->stream, STREAM_CANCELLED);
	(void)tls_stream_write(v->tls, buf_at(&out), buf_len(&out));
	timer_start(v->deadline, RENDEZVOUS_MS, 0);
}

static void
visitor_decline(struct visitor *v, const char *why)
{
	struct rendezvous_line no = {.word = RENDEZVOUS_NO};

	v->of->declined++;
	log_clean(no.text, sizeof no.text, *why != '\0' ? why : "the other node refuses");
	log_limited(LOG_LEVEL_INFO, 12, "hub",
		"two nodes are not introduced to each other node=%s other=%s reason=\"%s\"",
		v->node, v->other[0] != '\0' ? v->other : "-", no.text);
	visitor_tell(v, &no);
}

/* --- rations -------------------------------------------------------------------------------- */

static void
attempt_forget(struct rendezvous *r, struct attempt *a)
{
	TAILQ_REMOVE(&r->attempts, a, link);
	r->n_attempts--;
	free(a->node);
	free(a->other);
	free(a);
}

static const char *
attempt_judge(const struct rendezvous *r, const char *node, const char *other)
{
	unsigned by_node = 0, by_pair = 0, invited = 0;
	const struct attempt *a;

	TAILQ_FOREACH(a, &r->attempts, link) {
		bool same = strcmp(a->node, node) == 0, to_same = strcmp(a->other, other) == 0;

		by_node += same;
		invited += to_same;
		by_pair += same && to_same;
	}
	if (by_pair >= RENDEZVOUS_OF_A_PAIR)
		return "this node has asked for that one too often";
	if (by_node >= RENDEZVOUS_ASKED_MOST)
		return "this node asks for others too often";
	if (invited >= RENDEZVOUS_ASKED_MOST || r->n_attempts >= RENDEZVOUS_REMEMBERED)
		return "too many ask for that node, or for others";
	return NULL;
}

const char *
rendezvous_ration(struct rendezvous *r, const char *node, const char *other)
{
	uint64_t now = loop_now_ms(r->config.loop);
	struct attempt *a;
	const char *why;

	while ((a = TAILQ_FIRST(&r->attempts)) != NULL && now - a->at_ms >= RENDEZVOUS_RECENT_MS)
		attempt_forget(r, a);
	if ((why = attempt_judge(r, node, other)) != NULL) {
		r->limited++;
		return why;
	}
	a = xcalloc(1, sizeof *a);
	a->at_ms = now;
	a->node = xstrdup(node);
	a->other = xstrdup(other);
	TAILQ_INSERT_TAIL(&r->attempts, a, link);
	r->n_attempts++;
	return NULL;
}

/* --- the introduction ----------------------------------------------------------------------- */

static struct visitor *
rendezvous_asker(const struct rendezvous *r, const char *id, const char *comer)
{
	struct visitor *v;

	TAILQ_FOREACH(v, &r->visitors, link)
		if (v->state == VISITOR_ASKING && strcmp(v->id, id) == 0 &&
			strcmp(v->other, comer) == 0)
			return v;
	return NULL;
}

static bool
visitor_is_revoked(const struct visitor *v)
{
	const struct rendezvous_config *c = &v->of->config;

	return c->refuses(c->arg, v->node, v->serial);
}

/* NULL, or why the asker is not told of the other node, which comes by the address `b`. What was
 * asked when it came may have changed since. */
static const char *
rendezvous_objection(const struct visitor *asker, const struct addr *b)
{
	const struct addr *a = &asker->from;
	struct in6_addr ip_a, ip_b;

	if (visitor_is_revoked(asker))
		return "the certificate of the node that asks was revoked";
	if (acl_names_nodes(asker->of->config.grants->access))
		return rendezvous_node_rules;
	if (a->sa.sa_family != b->sa.sa_family)
		return "one node comes by IPv4, the other one by IPv6";
	if (addr_ip(a, &ip_a) && addr_ip(b, &ip_b) && ip_same(&ip_a, &ip_b))
		return "the hub sees both nodes at one address: they are behind the same NAT, or "
		       "what is in front of the hub hides where they come from";
	return NULL;
}

/* The other node has come, by the address `at`: tells the asker, and gives its line. What is told
 * takes half a round trip, so that they begin at the same time. */
static void
rendezvous_introduce(
	struct visitor *asker, const struct addr *at, unsigned rtt_ms, struct rendezvous_line *line)
{
	const unsigned own_ms = sock_rtt_ms(tls_stream_fd(asker->tls)),
		       most_ms = MAX(own_ms, rtt_ms);
	const char *why = rendezvous_objection(asker, at);
	char a[ADDR_TEXT_MAX], b[ADDR_TEXT_MAX];

	*line = (struct rendezvous_line){.word = RENDEZVOUS_NO};
	if (why != NULL) {
		snprintf(line->text, sizeof line->text, "%s", why);
		visitor_decline(asker, why);
		return;
	}
	asker->of->introduced++;
	log_limited(LOG_LEVEL_INFO, 60, "hub",
		"two nodes are introduced to each other node=%s address=%s other=%s "
		"other_address=%s rtt_ms=%u other_rtt_ms=%u",
		asker->node, addr_text(&asker->from, a), asker->other, addr_text(at, b), own_ms,
		rtt_ms);
	*line = (struct rendezvous_line){.word = RENDEZVOUS_GO,
		.own = asker->from,
		.other = *at,
		.delay_ms = MIN(SPARE_MS + (most_ms - own_ms) / 2, (unsigned)RENDEZVOUS_DELAY_MS)};
	visitor_tell(asker, line);
	line->own = *at;
	line->other = asker->from;
	line->delay_ms = MIN(SPARE_MS + (most_ms - rtt_ms) / 2, (unsigned)RENDEZVOUS_DELAY_MS);
}

/* --- a node asks ---------------------------------------------------------------------------- */

static void
on_invitation_answered(void *arg, unsigned status, const char *reason)
{
	struct visitor *v = arg;

	if (status == 200)
		return; /* it comes */
	visitor_decline(v,
		status == 400 || status == 404
			? "the other node's agent is older than mesh.direct: nat"
			: reason);
}

static void
on_invitation_reset(void *arg, unsigned code)
{
	struct visitor *v = arg;

	stream_close(&v->stream, STREAM_CANCELLED);
	if (code != STREAM_DONE)
		visitor_decline(v, "the other node's tunnel broke");
}

static int
visitor_invite(struct visitor *v)
{
	static const struct stream_events events = {
		.answered = on_invitation_answered, .reset = on_invitation_reset};
	const struct stream_field fields[] = {{RENDEZVOUS_ID, v->id}, {RENDEZVOUS_NODE, v->node}};
	const struct stream_request request = {
		.authority = RENDEZVOUS_AUTHORITY, .fields = fields, .n_fields = ARRAY_LEN(fields)};
	struct peers_ask other = {
		.node = v->other, .request = &request, .events = &events, .to = v};
	int rc = tunnels_open(v->of->config.tunnels, v->other, &request, &events, v, &v->stream);

	if (rc < 0 && (rc = peers_open(v->of->peers, &other)) == 0)
		v->stream = other.stream;
	return rc;
}

static void
visitor_meet(struct visitor *v, const char *other)
{
	struct rendezvous *r = v->of;
	unsigned char random[16];
	const char *why = NULL;
	size_t at;

	snprintf(v->other, sizeof v->other, "%s", other);
	if (!node_name_ok(other) || strcmp(other, v->node) == 0)
		why = "this is no name of another node";
	else if (acl_names_nodes(r->config.grants->access))
		why = rendezvous_node_rules;
	else
		why = rendezvous_ration(r, v->node, other);
	at = (size_t)snprintf(v->id, sizeof v->id, "%s", peers_id(r->peers));
	random_bytes(random, sizeof random);
	for (size_t i = 0; i < sizeof random; i++)
		at += (size_t)snprintf(v->id + at, sizeof v->id - at, "%02x", random[i]);
	v->state = VISITOR_ASKING;
	if (why == NULL && visitor_invite(v) < 0)
		why = "the other node has no tunnel to any hub now";
	if (why != NULL)
		visitor_decline(v, why);
}

/* --- a node comes --------------------------------------------------------------------------- */

static void
on_asker_answered(void *arg, unsigned status, const char *reason)
{
	struct visitor *v = arg;
	struct rendezvous_line line;
	char text[STREAM_REASON_MAX + 2];
	int n = snprintf(text, sizeof text, "%s\n", reason);

	if (status == 202 && rendezvous_line_read(text, (size_t)n, &line) > 0)
		visitor_tell(v, &line);
	else
		visitor_decline(v, reason);
}

static void
on_asker_reset(void *arg, unsigned code)
{
	struct visitor *v = arg;

	(void)code;
	stream_close(&v->stream, STREAM_CANCELLED);
	visitor_decline(v, "the replica that was asked for this node was lost");
}

/* The asker is at another replica. */
static int
visitor_pass_on(struct visitor *v)
{
	static const struct stream_events events = {
		.answered = on_asker_answered, .reset = on_asker_reset};
	char hub[PEER_ID_TEXT], at[ADDR_TEXT_MAX], rtt[16];
	const struct stream_field fields[] = {{RENDEZVOUS_ID, v->id}, {RENDEZVOUS_NODE, v->node},
		{RENDEZVOUS_ADDRESS, addr_text(&v->from, at)}, {"edgeway-rtt", rtt}};
	const struct stream_request request = {
		.authority = RENDEZVOUS_AUTHORITY, .fields = fields, .n_fields = ARRAY_LEN(fields)};
	struct peers_ask ask = {.node = "", .request = &request, .events = &events, .to = v};
	int rc;

	snprintf(hub, sizeof hub, "%.*s", (int)sizeof hub - 1, v->id);
	snprintf(rtt, sizeof rtt, "%u", sock_rtt_ms(tls_stream_fd(v->tls)));
	v->state = VISITOR_COMING;
	if ((rc = peers_ask_hub(v->of->peers, &ask, hub)) == 0)
		v->stream = ask.stream;
	return rc;
}

static void
visitor_come(struct visitor *v, const char *id)
{
	struct visitor *asker = rendezvous_asker(v->of, id, v->node);
	struct rendezvous_line line;

	snprintf(v->id, sizeof v->id, "%.*s", RENDEZVOUS_ID_LEN, id);
	if (asker != NULL) {
		rendezvous_introduce(asker, &v->from, sock_rtt_ms(tls_stream_fd(v->tls)), &line);
		visitor_tell(v, &line);
	} else if (strncmp(id, peers_id(v->of->peers), PEER_ID_TEXT - 1) == 0 ||
		visitor_pass_on(v) < 0) {
		visitor_decline(v, "nobody waits for this node any more");
	}
}

unsigned
rendezvous_came(struct rendezvous *r, struct stream *st, const struct stream_request *request,
	const char **reason)
{
	const char *id = stream_field_of(request, RENDEZVOUS_ID),
		   *node = stream_field_of(request, RENDEZVOUS_NODE);
	struct visitor *asker = rendezvous_asker(r, id, node);
	struct rendezvous_line line;
	auto_buf struct buf text;
	struct addr at;

	(void)st;
	buf_init(&text, BUF_UNLIMITED);
	*reason = "edgeway-address is no address";
	if (addr_parse(&at, stream_field_of(request, RENDEZVOUS_ADDRESS), 0, NULL) < 0)
		return 400;
	*reason = "nobody waits for this node any more";
	if (asker == NULL)
		return 404;
	rendezvous_introduce(asker, &at,
		(unsigned)MIN(strtoul(stream_field_of(request, "edgeway-rtt"), NULL, 10), 2000UL),
		&line);
	rendezvous_line_write(&line, &text);
	snprintf(r->answer, sizeof r->answer, "%.*s", (int)buf_len(&text) - 1, buf_str(&text));
	*reason = r->answer;
	return 202;
}

/* --- connections ---------------------------------------------------------------------------- */

/* Ends soon however fast a node sends: it may say one line, and nothing behind it. */
static void
visitor_read(struct visitor *v)
{
	struct rendezvous_line line;
	ssize_t n;

	for (;;) {
		bool listens = v->state == VISITOR_SILENT;
		char more;

		n = listens ? tls_stream_read(v->tls, v->in + v->n, sizeof v->in - v->n)
			    : tls_stream_read(v->tls, &more, sizeof more);
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			visitor_free(v);
			return;
		}
		v->n += listens ? (size_t)n : 0;
		n = listens ? rendezvous_line_read(v->in, v->n, &line) : 0;
		if (n < 0 ||
			(n > 0 && line.word != RENDEZVOUS_MEET && line.word != RENDEZVOUS_COME)) {
			visitor_refuse(v, "it says nothing that is known");
			return;
		}
		if (!listens || (n > 0 && (size_t)n < v->n)) {
			visitor_refuse(v, "it says more than its line");
			return;
		}
		if (n > 0 && visitor_is_revoked(v)) {
			visitor_refuse(v, "the certificate was revoked");
			return;
		}
		if (n > 0 && line.word == RENDEZVOUS_MEET)
			visitor_meet(v, line.text);
		else if (n > 0)
			visitor_come(v, line.text);
	}
}

static const char *
visitor_judge(const struct visitor *v)
{
	const struct visitor *other;
	unsigned n = 0, all = 0;

	if (!node_name_ok(v->node))
		return "the certificate does not name a node";
	if (visitor_is_revoked(v))
		return "the certificate was revoked";
	TAILQ_FOREACH(other, &v->of->visitors, link) {
		all += other->state != VISITOR_SHAKING;
		n += strcmp(other->node, v->node) == 0;
	}
	return all > RENDEZVOUS_MOST       ? "too many connections"
		: n > RENDEZVOUS_OF_A_NODE ? "too many connections of this node"
					   : NULL;
}

static void
on_visitor_tls(void *arg, enum tls_event event)
{
	if (event == TLS_READABLE)
		visitor_read(arg);
}

static void
on_visitor_shaken(void *arg, struct tls_stream *stream, const char *why)
{
	struct visitor *v = arg;

	v->handshake = NULL;
	if (stream == NULL) {
		visitor_refuse(v, why);
		return;
	}
	v->tls = stream;
	tls_stream_use(stream, on_visitor_tls, v);
	preauth_leave(&v->place);
	snprintf(v->node, sizeof v->node, "%s", tls_stream_peer(stream));
	(void)tls_stream_peer_ends(stream, v->serial);
	v->state = VISITOR_SILENT;
	if ((why = visitor_judge(v)) != NULL)
		visitor_refuse(v, why);
	else
		visitor_read(v);
}

static void
on_visitor_dropped(void *arg)
{
	visitor_refuse(arg, "its place was needed: too many handshakes are under way");
}

static void
on_visitor_late(void *arg)
{
	struct visitor *v = arg;

	if (v->state == VISITOR_ASKING || v->state == VISITOR_COMING)
		visitor_decline(v, "the other node was invited, and has not come");
	else
		visitor_free(v);
}

/* Where it comes from; IPv4 as such. */
static struct addr
rendezvous_source(int fd)
{
	const struct addr a = preauth_from(fd, NULL);
	struct in6_addr ip;

	return addr_ip(&a, &ip) ? addr_of(&ip, addr_port(&a)) : a;
}

void
rendezvous_adopt(struct rendezvous *r, int fd)
{
	struct visitor *v = xcalloc(1, sizeof *v);

	v->of = r;
	v->from = rendezvous_source(fd);
	v->place = (struct preauth_conn){.drop = on_visitor_dropped, .arg = v};
	v->deadline = timer_new(r->config.loop, on_visitor_late, v);
	timer_start(v->deadline, RENDEZVOUS_MS, 0);
	TAILQ_INSERT_TAIL(&r->visitors, v, link);
	if (r->tls == NULL ||
		!preauth_enter(
			r->config.preauth, &v->place, &v->from, loop_now_ms(r->config.loop))) {
		close(fd);
		visitor_refuse(v,
			r->tls == NULL ? "this hub is not ready"
				       : "too many handshakes are under way");
		return;
	}
	v->handshake = tls_handshake_new(&(struct tls_handshake_setup){.loop = r->config.loop,
		.workers = r->config.workers,
		.fd = fd,
		.ctx = r->tls,
		.alpn = TUNNEL_ALPN_RENDEZVOUS,
		.from = &v->from,
		.place = &v->place,
		.done = on_visitor_shaken,
		.arg = v});
}

/* --- life ----------------------------------------------------------------------------------- */

struct rendezvous *
rendezvous_new(const struct rendezvous_config *config)
{
	struct rendezvous *r = xcalloc(1, sizeof *r);

	r->config = *config;
	TAILQ_INIT(&r->visitors);
	TAILQ_INIT(&r->attempts);
	return r;
}

void
rendezvous_free(struct rendezvous **out)
{
	struct rendezvous *r = take_ptr(out);

	if (r == NULL)
		return;
	while (!TAILQ_EMPTY(&r->visitors))
		visitor_free(TAILQ_FIRST(&r->visitors));
	while (!TAILQ_EMPTY(&r->attempts))
		attempt_forget(r, TAILQ_FIRST(&r->attempts));
	free(r);
}

void
rendezvous_use(struct rendezvous *r, struct ssl_ctx_st *tls, struct peers *peers)
{
	r->tls = tls;
	r->peers = peers;
}

void
rendezvous_metrics(const struct rendezvous *r, struct metrics *m)
{
	static const struct figure figures[] = {
		FIGURE(struct rendezvous, introduced, "edgeway_hub_rendezvous_total",
			"result=\"introduced\"",
			"Nodes that asked to meet another one across NAT, by what became of it.",
			NULL),
		FIGURE_ALSO(struct rendezvous, declined, "result=\"declined\"", NULL),
		FIGURE_ALSO(struct rendezvous, limited, "result=\"limited\"", NULL),
		FIGURE_ALSO(struct rendezvous, refused, "result=\"refused\"", NULL),
	};

	figures_metrics(FIGURES(figures), r, m);
}
