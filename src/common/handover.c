#include "src/common/handover.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/fdpass.h"
#include "base/core/log.h"
#include "base/http/admin.h"
#include "src/common/takeover.h"
#include "src/common/upgrade.h"

/*
 *	   ┌─ it ends, or is late ─┐
 *	   ▼                       │               ┌ drained, and SIGTERM came or it is our child ┐
 *	SERVING ──it asks──────► HELD ─"serving"─► GIVEN ─drained─► WAITING ─SIGTERM─────────► ENDED
 *	   └──────SIGTERM──────► STOPPING ──drained────────────────────────────────────────────►─┘
 *
 * SIGTERM in HELD or GIVEN is remembered: it stops a daemon that returns to SERVING, and ends one
 * that has drained. All other events are ignored in every state.
 */
enum handover_state { SERVING, STOPPING, HELD, GIVEN, WAITING, ENDED };

struct handover {
	struct handover_config config;
	enum handover_state state;
	struct upgrade upgrade;
	pid_t successor;
	int fd; /* the connection to it, in HELD */
	struct watch *watch;
	struct timer *late;
	bool terminated; /* by SIGTERM, in HELD or GIVEN */
};

/* Sends the final message: HELD is over. */
static void
handover_say(struct handover *h, const char *word)
{
	if (write(h->fd, word, strlen(word)) < 0)
		log_warn(h->config.who, "the new %s has gone: %s", h->config.who, strerror(errno));
	cleanup_fd(&h->fd);
}

static void
handover_leave_held(struct handover *h, enum handover_state state)
{
	h->state = state;
	timer_cancel(h->late);
	watch_stop(&h->watch);
}

static void
handover_take_back(struct handover *h, const char *why)
{
	const struct handover_config *c = &h->config;
	struct err err = {0};
	int rc;

	log_error(c->who, "a new %s did not take over, this one goes on: %s", c->who, why);
	handover_leave_held(h, SERVING);
	rc = c->resume(c->arg, &err);
	if (rc < 0)
		log_error(c->who, "cannot go on: %s", err.text);
	handover_say(h, TAKEOVER_MINE); /* only now: after this message it releases the database */
	if (h->terminated || rc < 0)
		c->stop(c->arg, rc < 0);
}

static void
handover_give(struct handover *h)
{
	const struct handover_config *c = &h->config;

	log_info(c->who, "a new %s serves: finishing what is in progress", c->who);
	handover_leave_held(h, GIVEN);
	upgrade_tell_manager(&h->upgrade, h->successor);
	c->give(c->arg);
	handover_say(h, TAKEOVER_YOURS);
}

static void
handover_on_word(void *arg, int fd, unsigned events)
{
	struct handover *h = arg;
	char text[16] = "";
	ssize_t n = read(fd, text, sizeof text - 1);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0 && strcmp(text, TAKEOVER_SERVING) == 0)
		handover_give(h);
	else
		handover_take_back(
			h, n > 0 ? "it said something else" : "it has ended, its log says why");
}

static void
handover_on_late(void *arg)
{
	handover_take_back(arg, "it did not serve in time");
}

static int
handover_send_sockets(const struct handover *h)
{
	int fds[FDPASS_MOST], n;
	auto_buf struct buf head;

	buf_init(&head, BUF_UNLIMITED);
	n = h->config.sockets(h->config.arg, &head, fds);
	return n < 0 ? n : fdpass_send(h->fd, buf_at(&head), buf_len(&head), fds, (size_t)n);
}

/* Tells the new daemon why not; it shows the text as it is. False: it may come. */
static bool
handover_refuse(const struct handover *h, int fd)
{
	const struct handover_config *c = &h->config;
	const char *why = c->refusal != NULL && h->state == SERVING ? c->refusal(c->arg) : NULL;
	struct admin_reply reply = {.status = 409};

	if (why == NULL)
		return false;
	log_warn(c->who, "does not hand over to a new %s: %s", c->who, why);
	buf_init(&reply.body, BUF_UNLIMITED);
	buf_printf(&reply.body, "%s\n", why);
	admin_answer(fd, &reply);
	buf_fini(&reply.body);
	return true;
}

void
handover_asked(struct handover *h, int fd)
{
	const struct handover_config *c = &h->config;
	int rc;

	if (handover_refuse(h, fd))
		return;
	if (h->state != SERVING) {
		log_warn(c->who,
			"another %s wants to take over, but this one stops, or hands over already",
			c->who);
		close(fd);
		return;
	}
	log_info(c->who, "hands over to a new %s", c->who);
	h->successor = upgrade_who_asks(fd);
	h->state = HELD;
	h->fd = fd;
	c->freeze(c->arg);
	rc = handover_send_sockets(h);
	if (rc < 0) {
		handover_take_back(h, strerror(-rc));
		return;
	}
	h->watch = watch_start(c->loop, fd, WATCH_READ, handover_on_word, h);
	timer_start(h->late, HANDOVER_MS, 0);
}

void
handover_upgrade(struct handover *h, int fd)
{
	if (!handover_refuse(h, fd))
		upgrade_asked(&h->upgrade, fd, h->state != SERVING);
}

bool
handover_is_under_way(const struct handover *h)
{
	return h != NULL && h->state != SERVING && h->state != STOPPING;
}

static void
handover_end(struct handover *h)
{
	h->state = ENDED;
	h->config.end(h->config.arg);
}

bool
handover_terminate(struct handover *h)
{
	switch (h->state) {
	case SERVING:
		h->state = STOPPING;
		return true;
	case HELD:
	case GIVEN:
		h->terminated = true;
		return false;
	case WAITING:
		handover_end(h);
		return false;
	case STOPPING:
	case ENDED:
		break;
	}
	return false;
}

void
handover_drained(struct handover *h)
{
	if (h->state == STOPPING ||
		(h->state == GIVEN &&
			(h->terminated || upgrade_is_child(&h->upgrade, h->successor)))) {
		handover_end(h);
	} else if (h->state == GIVEN) {
		h->state = WAITING;
		log_info(h->config.who, "everything is handed over; waiting to be stopped");
	}
}

void
handover_new(struct handover **out, const struct handover_config *config)
{
	struct handover *h = xcalloc(1, sizeof *h);

	h->config = *config;
	h->fd = -1;
	h->late = timer_new(config->loop, handover_on_late, h);
	upgrade_init(&h->upgrade, config->loop, config->starter, config->who, config->program);
	*out = h;
}

void
handover_free(struct handover **out)
{
	struct handover *h = take_ptr(out);

	if (h == NULL)
		return;
	watch_stop(&h->watch);
	timer_free(&h->late);
	cleanup_fd(&h->fd);
	upgrade_fini(&h->upgrade);
	free(h);
}
