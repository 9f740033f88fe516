#include "iptables/maps/probe.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/hash.h"
#include "base/core/log.h"
#include "base/core/sock.h"
#include "model/table.h"

enum { TICK_MS = 100, STARTS_MAX = 100, OPEN_MAX = 256 };

struct probe {
	struct table_node node;
	struct probes *all;
	struct slots_target target;
	bool wanted, dead;
	uint8_t fails;
	uint64_t due_ms, begun_ms;
	int fd; /* -1: not connecting */
	struct watch *watch;
};

struct probes {
	struct loop *loop;
	uint32_t mark;
	loop_fn *changed;
	void *arg;
	struct timer *tick;
	struct table table;
	size_t open, dead;
	bool news; /* report changes in the next tick, which comes at once */
};

static uint64_t
probe_hash(const struct slots_target *t)
{
	const uint32_t key[2] = {ip_to_v4(&t->ip), t->port};

	return hash64(key, sizeof key, 0);
}

static struct probe *
probe_find(const struct probes *p, const struct slots_target *t)
{
	for (struct table_node *n = table_first(&p->table, probe_hash(t)); n != NULL;
		n = table_next(n)) {
		struct probe *one = container_of(n, struct probe, node);

		if (one->target.port == t->port && ip_same(&one->target.ip, &t->ip))
			return one;
	}
	return NULL;
}

static void
hang_up(struct probe *one)
{
	static const struct linger now = {.l_onoff = 1};

	if (one->fd < 0)
		return;
	watch_stop(&one->watch);
	setsockopt(one->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now); /* reset: nothing was sent */
	close(one->fd);
	one->fd = -1;
	one->all->open--;
}

static void
probe_say(const struct probe *one)
{
	const struct addr a = addr_of(&one->target.ip, one->target.port);
	char text[ADDR_TEXT_MAX];

	log_limited(LOG_LEVEL_WARN, 20, "iptables", "endpoint of the kernel's path %s endpoint=%s",
		one->dead ? "does not answer, left out" : "answers again", addr_text(&a, text));
}

static void
probe_judge(struct probe *one, bool answered)
{
	struct probes *p = one->all;
	bool was = one->dead;

	hang_up(one);
	one->fails = answered ? 0 : (uint8_t)MIN(one->fails + 1, PROBE_FAILS);
	one->dead = answered ? false : was || one->fails >= PROBE_FAILS;
	one->due_ms =
		loop_now_ms(p->loop) + (answered || one->dead ? PROBE_EVERY_MS : PROBE_AGAIN_MS);
	if (one->dead == was)
		return;
	p->dead += one->dead ? 1 : (size_t)-1;
	p->news = true;
	timer_start(p->tick, 0, TICK_MS);
	probe_say(one);
}

static void
on_ready(void *arg, int fd, unsigned events)
{
	(void)events;
	probe_judge(arg, sock_error(fd) == 0);
}

static void
probe_dial(struct probe *one)
{
	struct probes *p = one->all;
	const struct addr to = addr_of(&one->target.ip, one->target.port);

	int rc = sock_connect(&to, p->mark, &one->fd);

	if (rc < 0) {
		one->fd = -1;
		if (sock_short_of(rc)) /* says nothing about the endpoint */
			one->due_ms = loop_now_ms(p->loop) + PROBE_AGAIN_MS;
		else
			probe_judge(one, false);
		return;
	}
	p->open++;
	one->begun_ms = loop_now_ms(p->loop);
	one->watch = watch_start(p->loop, one->fd, WATCH_WRITE, on_ready, one);
}

static void
probe_on_tick(void *arg)
{
	struct probes *p = arg;
	uint64_t now = loop_now_ms(p->loop);
	struct table_node *n = NULL;
	size_t slot = 0, started = 0;

	while ((n = table_walk(&p->table, &slot, n)) != NULL) {
		struct probe *one = container_of(n, struct probe, node);

		if (one->fd >= 0 && now - one->begun_ms >= PROBE_TIMEOUT_MS)
			probe_judge(one, false);
		if (one->fd < 0 && now >= one->due_ms && started < STARTS_MAX &&
			p->open < OPEN_MAX) {
			started++;
			probe_dial(one);
		}
	}
	if (!p->news)
		return;
	p->news = false;
	p->changed(p->arg);
}

void
probes_new(struct probes **out, struct loop *loop, uint32_t mark, loop_fn *fn, void *arg)
{
	struct probes *p = xcalloc(1, sizeof *p);

	p->loop = loop;
	p->mark = mark;
	p->changed = fn;
	p->arg = arg;
	p->tick = timer_new(loop, probe_on_tick, p);
	*out = p;
}

static void
probe_forget(struct probes *p, struct probe *one)
{
	hang_up(one);
	p->dead -= one->dead;
	table_remove(&p->table, &one->node);
	free(one);
}

/* Forgets those that are not wanted, or all. */
static void
probe_sweep(struct probes *p, bool all)
{
	for (size_t i = 0; i < p->table.n_slots; i++) {
		struct table_node *n = p->table.slots[i], *next;

		for (; n != NULL; n = next) {
			struct probe *one = container_of(n, struct probe, node);

			next = n->next;
			if (all || !one->wanted)
				probe_forget(p, one);
		}
	}
}

void
probes_free(struct probes **out)
{
	struct probes *p = take_ptr(out);

	if (p == NULL)
		return;
	probe_sweep(p, true);
	table_fini(&p->table);
	timer_free(&p->tick);
	free(p);
}

void
probes_begin(struct probes *p)
{
	struct table_node *n = NULL;
	size_t slot = 0;

	while ((n = table_walk(&p->table, &slot, n)) != NULL)
		container_of(n, struct probe, node)->wanted = false;
}

void
probes_want(struct probes *p, const struct slots_target *t)
{
	struct probe *one = probe_find(p, t);

	if (one == NULL) {
		one = xcalloc(1, sizeof *one);
		one->all = p;
		one->target = *t;
		one->fd = -1;
		table_add(&p->table, &one->node, probe_hash(t));
	}
	one->wanted = true;
}

void
probes_end(struct probes *p)
{
	probe_sweep(p, false);
	if (p->table.n == 0)
		timer_cancel(p->tick);
	else if (!timer_active(p->tick))
		timer_start(p->tick, 0, TICK_MS);
}

bool
probes_alive(const struct probes *p, const struct slots_target *t)
{
	const struct probe *one = probe_find(p, t);

	return one == NULL || !one->dead;
}

size_t
probes_count(const struct probes *p)
{
	return p->table.n;
}

size_t
probes_dead(const struct probes *p)
{
	return p->dead;
}
