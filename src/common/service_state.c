#include "src/common/service_state.h"

#include <string.h>

#include "base/core/log.h"
#include "base/os/notify.h"

/* How often the state is checked: while units may wait for us, and later for STATUS=. */
enum { LOOK_SOON_MS = 100, LOOK_LATER_MS = 2000 };

struct service_state {
	struct service_state_config config;
	struct timer *timer;
	char *status; /* the last one sent */
	uint64_t started_ms, fed_ms;
	uint64_t watchdog_ms; /* 0: no watchdog */
	bool ready, stopping, complained;
};

static void
service_state_say(struct service_state *a, const char *lines)
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

/* STATUS= is limited to one line. */
static void
say_status(struct service_state *a, struct buf *status)
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
	service_state_say(a, line);
}

static void
service_state_pace(struct service_state *a)
{
	uint64_t every = a->ready ? LOOK_LATER_MS : LOOK_SOON_MS;

	if (a->watchdog_ms > 0)
		every = MAX(MIN(every, a->watchdog_ms / 2), 1u);
	timer_start(a->timer, every, every);
}

static void
service_state_feed(struct service_state *a)
{
	a->fed_ms = loop_now_ms(a->config.loop);
	if (a->watchdog_ms > 0)
		service_state_say(a, "WATCHDOG=1");
}

static void
service_state_look(void *arg)
{
	struct service_state *a = arg;
	uint64_t now = loop_now_ms(a->config.loop);
	auto_buf struct buf status = {0};
	bool ready;

	if ((now - a->fed_ms) * 2 + LOOK_LATER_MS >= a->watchdog_ms)
		service_state_feed(a);
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
	service_state_say(a, "READY=1");
	service_state_pace(a);
}

void
service_state_start(struct service_state **out, const struct service_state_config *config)
{
	struct service_state *a;

	if (!notify_wanted())
		return;
	a = xcalloc(1, sizeof *a);
	a->config = *config;
	if (a->config.patience_ms == 0)
		a->config.patience_ms = SERVICE_STATE_PATIENCE_MS;
	a->watchdog_ms = notify_watchdog_ms();
	a->started_ms = a->fed_ms = loop_now_ms(config->loop);
	a->timer = timer_new(config->loop, service_state_look, a);
	*out = a;
	service_state_pace(a);
}

void
service_state_again(struct service_state *a)
{
	if (a == NULL || a->stopping)
		return;
	free(take_ptr(&a->status));
	service_state_feed(a);
	if (a->ready)
		service_state_say(a, "READY=1");
	service_state_look(a);
}

void
service_state_stopping(struct service_state *a)
{
	if (a == NULL || a->stopping)
		return;
	a->stopping = true;
	service_state_say(a, "STOPPING=1\nSTATUS=finishing what is in progress");
}

void
service_state_stop(struct service_state **announce)
{
	struct service_state *a = take_ptr(announce);

	if (a == NULL)
		return;
	timer_free(&a->timer);
	free(a->status);
	free(a);
}
