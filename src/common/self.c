#include "src/common/self.h"

#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "base/os/procinfo.h"
#include "model/json.h"

enum { WORD_MAX = 32 };

static const char *
self_loop_name(const struct workers *workers, size_t loop, char to[WORKER_NAME_MAX])
{
	return loop == 0 ? "main" : workers_name(workers, loop - 1, to);
}

void
self_metrics(struct metrics *m, struct loop *loop, const struct workers *workers)
{
	static const char *const over[LOOP_SLOW] = {"0.01", "0.1", "1"};
	const size_t n = 1 + (workers != NULL ? workers_count(workers) : 0);
	struct loop_lag *lag = xcalloc(n, sizeof *lag);
	char labels[96], name[WORKER_NAME_MAX];

	for (size_t i = 0; i < n; i++) {
		loop_lag(i == 0 ? loop : workers_loops(workers)[i - 1], &lag[i]);
		for (size_t k = 0; k < LOOP_SLOW; k++) {
			snprintf(labels, sizeof labels, "loop=\"%s\",over=\"%s\"",
				self_loop_name(workers, i, name), over[k]);
			metric_counter(m, "edgeway_loop_slow_turns_total",
				"Turns of an event loop that took longer than so many seconds: "
				"what it carries waited.",
				labels, lag[i].slow[k]);
		}
	}
	for (size_t i = 0; i < n; i++) {
		snprintf(labels, sizeof labels, "loop=\"%s\"", self_loop_name(workers, i, name));
		metric_counter(m, "edgeway_loop_unwatched_total",
			"Times that the kernel had no room to watch a descriptor, and it was tried "
			"again 10 ms later.",
			labels, lag[i].unwatched);
	}
	for (size_t i = 0; i < n; i++) {
		snprintf(labels, sizeof labels, "loop=\"%s\"", self_loop_name(workers, i, name));
		metric_gauge(m, "edgeway_loop_lag_seconds",
			"The longest turn of an event loop above 10 ms since the last scrape.",
			labels, (double)lag[i].worst_ms / 1000);
	}
	free(lag);
	procinfo_metrics(m);
}

void
self_admin_state(const struct admin *all, const struct admin *metrics, struct buf *out)
{
	auto_buf struct buf trouble;

	buf_init(&trouble, BUF_UNLIMITED);
	admin_trouble(all, &trouble);
	admin_trouble(metrics, &trouble);
	buf_adds(out, "{\"trouble\":");
	json_add_text(out, buf_str(&trouble));
	buf_adds(out, "}");
}

struct chosen {
	struct buf *out;
	char part[WORD_MAX], level[WORD_MAX];
	bool first;
};

/* A level includes those above it. */
static bool
self_serious(const char *level, const char *least)
{
	for (int i = LOG_LEVEL_ERROR; i <= LOG_LEVEL_DEBUG; i++) {
		const char *name = log_level_name((enum log_level)i);

		if (strcmp(level, name) == 0)
			return true;
		if (strcmp(least, name) == 0)
			return false;
	}
	return false;
}

static void
on_event(void *arg, const struct log_event *e)
{
	struct chosen *c = arg;

	if ((c->part[0] != '\0' && strcmp(c->part, e->part) != 0) ||
		!self_serious(e->level, c->level))
		return;
	buf_printf(c->out, "%s\n{\"time\":\"%s\",\"level\":\"%s\",\"part\":\"%s\",\"event\":",
		c->first ? "" : ",", e->when, e->level, e->part);
	json_add_text(c->out, e->text);
	buf_adds(c->out, "}");
	c->first = false;
}

void
self_events(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	struct chosen c = {.out = &reply->body, .level = "info", .first = true};

	(void)arg;
	if (admin_query(req->query, "part", c.part, sizeof c.part) < 0 ||
		admin_query(req->query, "level", c.level, sizeof c.level) < 0) {
		reply->status = 400;
		buf_adds(&reply->body, "part, level: a word expected\n");
		return;
	}
	reply->type = "application/json";
	buf_adds(&reply->body, "{\"events\":[");
	log_recent(on_event, &c);
	buf_adds(&reply->body, "\n]}\n");
}
