#include "src/common/announce.h"

#include <string.h>

#include "base/core/log.h"
#include "base/os/notify.h"

/* How often is looked: while somebody may wait for us, and later, for STATUS=. */
enum { LOOK_SOON_MS = 100, LOOK_LATER_MS = 2000 };

struct announce {
	struct announce_config config;
	struct timer *timer;
	char *status; /* what was said last */
	uint64_t started_ms, fed_ms;
	uint64_t watchdog_ms; /* 0: nobody watches */
	bool ready, stopping, complained;
};

static void
announce_say(struct announce *a, const char *lines)
{
	int rc = notify_send(lines);

	if (rc < 0 && !a->complained)
		log_warn(a->config.part,
			"the service manager cannot be told how we are; is NOTIFY_SOCKET its "
			"socket, and may "
			"we write to it? error=\"%s\"",
			strerror(-rc));
	a->complained = rc < 0;
}

/* One line: STATUS= has no more. */
static void
say_status(struct announce *a, struct buf *status)
{
	auto_free char *line = NULL;
	char *text = xstrdup(buf_str(status));
	size_t len = strlen(text);

	while (len > 0 && text[len - 1] == '\n')
		text[--len] = '\0';
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\n')
			text[i] = ';';
	}
	if (a->status != NULL && strcmp(a->status, text) == 0) {
		free(text);
		return;
	}
	free(a->status);
	a->status = text;
	line = xasprintf("STATUS=%s", text);
	announce_say(a, line);
}

static void
announce_pace(struct announce *a)
{
	uint64_t every = a->ready ? LOOK_LATER_MS : LOOK_SOON_MS;

	if (a->watchdog_ms > 0)
		every = MAX(MIN(every, a->watchdog_ms / 2), 1);
	timer_start(a->timer, every, every);
}

static void
announce_feed(struct announce *a)
{
	a->fed_ms = loop_now_ms(a->config.loop);
	if (a->watchdog_ms > 0)
		announce_say(a, "WATCHDOG=1");
}

static void
announce_look(void *arg)
{
	struct announce *a = arg;
	uint64_t now = loop_now_ms(a->config.loop);
	auto_buf struct buf status = {0};
	bool ready;

	if ((now - a->fed_ms) * 2 + LOOK_LATER_MS >= a->watchdog_ms)
		announce_feed(a);
	if (a->stopping)
		return;
	buf_init(&status, BUF_UNLIMITED);
	ready = a->config.ready(a->config.arg, &status);
	say_status(a, &status);
	if (a->ready || (!ready && now - a->started_ms < a->config.patience_ms))
		return;
	if (!ready)
		log_warn(a->config.part,
			"tells the service manager to go on without us: not ready yet "
			"status=\"%s\"",
			a->status);
	a->ready = true;
	announce_say(a, "READY=1");
	announce_pace(a);
}

void
announce_start(struct announce **out, const struct announce_config *config)
{
	struct announce *a;

	if (!notify_wanted())
		return;
	a = xcalloc(1, sizeof *a);
	a->config = *config;
	if (a->config.patience_ms == 0)
		a->config.patience_ms = ANNOUNCE_PATIENCE_MS;
	a->watchdog_ms = notify_watchdog_ms();
	a->started_ms = a->fed_ms = loop_now_ms(config->loop);
	a->timer = timer_new(config->loop, announce_look, a);
	*out = a;
	announce_pace(a);
}

void
announce_again(struct announce *a)
{
	if (a == NULL || a->stopping)
		return;
	free(take_ptr(&a->status));
	announce_feed(a);
	if (a->ready)
		announce_say(a, "READY=1");
	announce_look(a);
}

void
announce_stopping(struct announce *a)
{
	if (a == NULL || a->stopping)
		return;
	a->stopping = true;
	announce_say(a, "STOPPING=1\nSTATUS=finishing what is in progress");
}

void
announce_stop(struct announce **announce)
{
	struct announce *a = take_ptr(announce);

	if (a == NULL)
		return;
	timer_free(&a->timer);
	free(a->status);
	free(a);
}
