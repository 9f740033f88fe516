#include "hub/port/alpn_mux.h"

#include <errno.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/figures.h"
#include "base/core/log.h"

struct guest {
	TAILQ_ENTRY(guest) link;
	struct preauth_conn place;
	struct alpn_mux *peek;
	struct watch *watch;
	int fd;
	char *from; /* the peer's address, if it came inside a websocket; else NULL */
	size_t need; /* bytes that it waited for; 0: the first ones */
	/* when it was accepted or, with a complete ClientHello, began to wait for its turn */
	uint64_t since_ms;
	bool waits, due; /* for its turn; its turn has come */
};

TAILQ_HEAD(guests, guest);

struct alpn_mux {
	struct loop *loop;
	struct timer *timer; /* for the connection that waits longest */
	struct guests guests; /* in the order of since_ms */
	struct preauth *preauth;
	size_t n;
	alpn_mux_fn *fn;
	void *arg;
	uint64_t late, unserved, ended, refused, turned_away, tunnels, replicas, others, carriers,
		rendezvous;
};

static void
set_timer(struct alpn_mux *p)
{
	const struct guest *g = TAILQ_FIRST(&p->guests);
	uint64_t now = loop_now_ms(p->loop), end;

	if (g == NULL) {
		timer_cancel(p->timer);
		return;
	}
	end = g->since_ms + ALPN_MUX_MS;
	timer_start(p->timer, end > now ? end - now : 1, 0);
}

static int
alpn_mux_release(struct guest *g)
{
	struct alpn_mux *p = g->peek;
	int fd = g->fd;

	TAILQ_REMOVE(&p->guests, g, link);
	preauth_leave(&g->place);
	p->n--;
	if (g->watch != NULL)
		watch_stop(&g->watch);
	free(g->from);
	free(g);
	return fd;
}

/* Counts a drop: no complete ClientHello, or no turn in time. */
static void
alpn_mux_count_drop(const struct guest *g)
{
	g->peek->late += !g->waits;
	g->peek->unserved += g->waits;
}

/* Drops connections that have waited this long. */
static void
drop_late(struct alpn_mux *p, uint64_t ms)
{
	struct guest *g;
	uint64_t now = loop_now_ms(p->loop);

	while ((g = TAILQ_FIRST(&p->guests)) != NULL && now - g->since_ms >= ms) {
		if (g->waits)
			log_limited(LOG_LEVEL_WARN, 6, "hub",
				"dropped a connection whose TLS handshake did not get its turn: "
				"too many others want one (edgeway_hub_handshake_steps_waiting) "
				"after_ms=%llu",
				(unsigned long long)ms);
		else
			log_limited(LOG_LEVEL_WARN, 6, "hub",
				"dropped a connection that did not say what it is (no whole TLS "
				"ClientHello) after_ms=%llu",
				(unsigned long long)ms);
		alpn_mux_count_drop(g);
		close(alpn_mux_release(g));
	}
}

static void
on_timer(void *arg)
{
	struct alpn_mux *p = arg;

	drop_late(p, ALPN_MUX_MS);
	set_timer(p);
}

/* Wake up only once this many bytes, or the end, have come. */
static void
wait_for(struct guest *g, size_t need)
{
	int low = (int)need;

	g->need = need;
	setsockopt(g->fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low);
}

static void
give_up(struct guest *g)
{
	g->peek->ended++;
	close(alpn_mux_release(g));
}

static void
hand_over(struct guest *g, enum client_hello kind)
{
	auto_free char *from = take_ptr(&g->from);
	struct alpn_mux *p = g->peek;
	int fd, one = 1;

	setsockopt(g->fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
	if (kind == CLIENT_HELLO_OTHER)
		p->others++;
	else if (kind == CLIENT_HELLO_PEER)
		p->replicas++;
	else if (kind == CLIENT_HELLO_RENDEZVOUS)
		p->rendezvous++;
	else if (kind == CLIENT_HELLO_REVERSE || kind == CLIENT_HELLO_STANDBY ||
		kind == CLIENT_HELLO_FORWARD)
		p->tunnels++;
	else
		p->carriers++;
	fd = alpn_mux_release(g);
	set_timer(p);
	p->fn(p->arg, fd, kind, from);
}

/* Inside a websocket only node connections are allowed, and no second websocket. */
static bool
may_be_carried(enum client_hello kind)
{
	return kind == CLIENT_HELLO_OTHER || kind == CLIENT_HELLO_REVERSE ||
		kind == CLIENT_HELLO_STANDBY || kind == CLIENT_HELLO_FORWARD;
}

static void alpn_mux_on_step(void *guest);

/* RFC 8446 section 6: an alert in the clear is all that can be said before TLS, and it costs no
 * handshake. Agents know it as "come later" (pki_peer_busy), and wait longer than when nobody
 * answers. */
static void
alpn_mux_send_away(int fd)
{
	static const uint8_t internal_error[] = {21, 3, 3, 0, 2, 2, 80};
	char unread[CLIENT_HELLO_MAX];

	/* What is not read would make the kernel reset the connection: the alert would be lost. */
	(void)recv(fd, unread, sizeof unread, MSG_DONTWAIT);
	(void)send(fd, internal_error, sizeof internal_error, MSG_DONTWAIT | MSG_NOSIGNAL);
	close(fd);
}

/* libwebsockets answers a ClientHello as soon as it gets it, in one turn; other TLS connections
 * wait for their turns themselves (tls_setup). */
static bool
alpn_mux_waits_for_turn(struct guest *g)
{
	if (g->waits)
		return !g->due;
	g->waits = preauth_step(&g->place, alpn_mux_on_step, g);
	if (!g->waits)
		return false;
	watch_set(g->watch, WATCH_HUP);
	/* From here on the delay is ours. */
	TAILQ_REMOVE(&g->peek->guests, g, link);
	g->since_ms = loop_now_ms(g->peek->loop);
	TAILQ_INSERT_TAIL(&g->peek->guests, g, link);
	set_timer(g->peek);
	return true;
}

static void
alpn_mux_look(struct guest *g)
{
	uint8_t bytes[CLIENT_HELLO_MAX];
	ssize_t n = recv(g->fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
	size_t need = 0;
	enum client_hello kind;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* Woken with fewer bytes than required: no more will come. */
	if (n <= 0 || (size_t)n < g->need) {
		give_up(g);
		return;
	}
	kind = client_hello_read(bytes, (size_t)n, &need);
	if (kind == CLIENT_HELLO_MORE)
		wait_for(g, need);
	else if (g->from != NULL && !may_be_carried(kind))
		give_up(g);
	else if (kind != CLIENT_HELLO_PLAIN && kind != CLIENT_HELLO_PEER &&
		preauth_turns_away(&g->place)) {
		g->peek->turned_away++;
		alpn_mux_send_away(alpn_mux_release(g));
	} else if (kind != CLIENT_HELLO_OTHER || !alpn_mux_waits_for_turn(g))
		hand_over(g, kind);
}

static void
alpn_mux_on_step(void *arg)
{
	struct guest *g = arg;

	g->due = true;
	alpn_mux_look(g);
}

static void
on_ready(void *arg, int fd, unsigned events)
{
	(void)fd;
	if (events & WATCH_HUP) /* reset, though bytes may still be there */
		give_up(arg);
	else
		alpn_mux_look(arg);
}

struct alpn_mux *
alpn_mux_new(struct loop *loop, struct preauth *preauth, alpn_mux_fn *fn, void *arg)
{
	struct alpn_mux *p = xcalloc(1, sizeof *p);

	p->loop = loop;
	p->preauth = preauth;
	p->fn = fn;
	p->arg = arg;
	TAILQ_INIT(&p->guests);
	p->timer = timer_new(loop, on_timer, p);
	return p;
}

void
alpn_mux_free(struct alpn_mux **out)
{
	struct alpn_mux *p = take_ptr(out);
	struct guest *g;

	if (p == NULL)
		return;
	while ((g = TAILQ_FIRST(&p->guests)) != NULL)
		close(alpn_mux_release(g));
	timer_free(&p->timer);
	free(p);
}

static void
alpn_mux_on_dropped(void *arg)
{
	struct guest *g = arg;

	alpn_mux_count_drop(g);
	alpn_mux_send_away(alpn_mux_release(g));
}

void
alpn_mux_take(struct alpn_mux *p, int fd, const char *from)
{
	const struct addr peer = preauth_from(fd, from);
	struct guest *g = xcalloc(1, sizeof *g);

	g->place = (struct preauth_conn){.drop = alpn_mux_on_dropped, .arg = g};
	if (!preauth_enter(p->preauth, &g->place, &peer, loop_now_ms(p->loop))) {
		p->refused++;
		free(g);
		alpn_mux_send_away(fd);
		return;
	}
	g->peek = p;
	g->fd = fd;
	g->from = from != NULL ? xstrdup(from) : NULL;
	g->since_ms = loop_now_ms(p->loop);
	TAILQ_INSERT_TAIL(&p->guests, g, link);
	p->n++;
	g->watch = watch_start(p->loop, fd, WATCH_READ, on_ready, g);
	if (!timer_active(p->timer))
		set_timer(p);
	alpn_mux_look(g); /* the ClientHello has usually arrived already */
}

static const struct figure alpn_mux_figures[] = {
	FIGURE(struct alpn_mux, others, "edgeway_hub_strangers_total", "is=\"websocket\"",
		"Connections by what their first bytes say.", NULL),
	FIGURE_ALSO(struct alpn_mux, tunnels, "is=\"tunnel\"", NULL),
	FIGURE_ALSO(struct alpn_mux, replicas, "is=\"replica\"", NULL),
	FIGURE_ALSO(struct alpn_mux, rendezvous, "is=\"rendezvous\"", NULL),
	FIGURE_ALSO(struct alpn_mux, carriers, "is=\"carrier\"", NULL),
	FIGURE_ALSO(struct alpn_mux, late, "is=\"silent\"", NULL),
	FIGURE_ALSO(struct alpn_mux, unserved, "is=\"unserved\"", NULL),
	FIGURE_ALSO(struct alpn_mux, ended, "is=\"gone\"", NULL),
	FIGURE_ALSO(struct alpn_mux, refused, "is=\"too_many\"", NULL),
	FIGURE_ALSO(struct alpn_mux, turned_away, "is=\"turned_away\"", NULL),
	FIGURE(struct alpn_mux, n, "edgeway_hub_strangers_waiting", NULL,
		"Connections that have not said what they are.", NULL),
};

void
alpn_mux_metrics(const struct alpn_mux *p, struct metrics *m)
{
	figures_metrics(FIGURES(alpn_mux_figures), p, m);
}
