#include "base/core/liveness.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "base/core/hash.h"
#include "base/core/sock.h"
#include "base/core/util.h"

enum { LIVENESS_BUCKETS = 1024 };

struct liveness_peer {
	struct liveness_peer *next, **link;
	_Atomic uint64_t link_ms, program_ms; /* they only grow */
	unsigned lines;
	char name[];
};

struct liveness {
	struct liveness_peer *buckets[LIVENESS_BUCKETS];
};

struct liveness *
liveness_new(void)
{
	return xcalloc(1, sizeof(struct liveness));
}

void
liveness_free(struct liveness **l)
{
	if (*l == NULL)
		return;
	for (size_t i = 0; i < LIVENESS_BUCKETS; i++)
		assert((*l)->buckets[i] == NULL);
	free(take_ptr(l));
}

void
liveness_join(struct liveness *l, const char *name, struct liveness_line *line, uint64_t now_ms)
{
	size_t len = strlen(name);
	struct liveness_peer **first = &l->buckets[hash64(name, len, 0) % LIVENESS_BUCKETS];
	struct liveness_peer *p = *first;

	while (p != NULL && strcmp(p->name, name) != 0)
		p = p->next;
	if (p == NULL) {
		p = xcalloc(1, sizeof *p + len + 1);
		memcpy(p->name, name, len);
		p->next = *first;
		p->link = first;
		if (p->next != NULL)
			p->next->link = &p->next;
		*first = p;
	}
	p->lines++;
	*line = (struct liveness_line){.peer = p, .looked_ms = now_ms};
	liveness_heard(line, now_ms);
}

void
liveness_leave(struct liveness_line *line)
{
	struct liveness_peer *p = take_ptr(&line->peer);

	if (p == NULL || --p->lines > 0)
		return;
	*p->link = p->next;
	if (p->next != NULL)
		p->next->link = p->link;
	free(p);
}

static void
liveness_raise(_Atomic uint64_t *time_ms, uint64_t at_ms)
{
	uint64_t now_ms = atomic_load(time_ms);

	while (now_ms < at_ms && !atomic_compare_exchange_weak(time_ms, &now_ms, at_ms))
		;
}

static void
liveness_heard_link(struct liveness_line *line, uint64_t at_ms)
{
	line->heard_ms = MAX(line->heard_ms, at_ms);
	liveness_raise(&line->peer->link_ms, at_ms);
}

void
liveness_heard(struct liveness_line *line, uint64_t now_ms)
{
	liveness_heard_link(line, now_ms);
	liveness_raise(&line->peer->program_ms, now_ms);
}

/* The kernel says when data and acknowledgements came. Of the peer's probes it only counts the
 * segments: their time is known where the last look was a moment ago. */
void
liveness_look(struct liveness_line *line, int fd, uint64_t now_ms)
{
	uint64_t before_ms = line->heard_ms;
	struct sock_received r;

	if (!sock_received(fd, &r))
		return;
	liveness_heard_link(line, now_ms - MIN((uint64_t)r.ago_ms, now_ms));
	if (r.segments != line->segments &&
		(now_ms - line->looked_ms <= 2 * LIVENESS_LOOK_MS || line->probing_ms != 0))
		liveness_heard_link(line, now_ms);
	line->segments = r.segments;
	line->looked_ms = now_ms;
	if (line->probing_ms != 0 && line->heard_ms > before_ms) {
		line->probing_ms = 0;
		(void)sock_probe(fd, false);
	}
}

void
liveness_doubt(struct liveness_line *line, uint64_t at_ms)
{
	liveness_raise(&line->peer->link_ms, at_ms);
}

bool
liveness_probe(struct liveness_line *line, int fd, uint64_t now_ms)
{
	if (!sock_probe(fd, true))
		return false;
	line->probing_ms = now_ms;
	return true;
}

uint64_t
liveness_link_ms(const struct liveness_line *line)
{
	return line->peer->link_ms;
}

uint64_t
liveness_program_ms(const struct liveness_line *line)
{
	return line->peer->program_ms;
}

static uint64_t
liveness_ago_ms(uint64_t at_ms, uint64_t now_ms)
{
	return now_ms - MIN(at_ms, now_ms);
}

uint64_t
liveness_link_ago_ms(const struct liveness_line *line, uint64_t now_ms)
{
	return liveness_ago_ms(line->peer->link_ms, now_ms);
}

uint64_t
liveness_program_ago_ms(const struct liveness_line *line, uint64_t now_ms)
{
	return liveness_ago_ms(line->peer->program_ms, now_ms);
}

bool
liveness_alone(const struct liveness_line *line)
{
	return line->peer->lines == 1;
}
