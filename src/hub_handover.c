#include "src/hub_handover.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/admin.h"
#include "base/fdpass.h"
#include "base/inherited.h"
#include "base/log.h"
#include "src/takeover.h"
#include "src/upgrade.h"

/*
 *	IDLE ──asked──► HELD ──"serving"──► GIVEN ──drained──► OVER ──SIGTERM──► the end
 *	  ▲              │                            └─ of a child: the end
 *	  └──it ends, or is late──┘
 */
enum state { IDLE, HELD, GIVEN, OVER };

struct hub_handover {
	struct hub_handover_config config;
	enum state state;
	struct upgrade upgrade;
	pid_t asker; /* whom we hand over to */
	int fd; /* the talk */
	struct watch *watch;
	struct timer *timer;
	bool term; /* to be stopped, as soon as that is possible */
};

static void
hub_handover_take_back(struct hub_handover *h, const char *why)
{
	struct err err = {0};
	int rc;

	log_error("hub", "a new hub did not take over, this one goes on: %s", why);
	h->state = IDLE;
	timer_cancel(h->timer);
	watch_stop(&h->watch);
	rc = hub_hold(h->config.hub, false, &err);
	if (rc < 0)
		log_error("hub", "cannot go on: %s", err.text);
	if (write(h->fd, TAKEOVER_MINE, sizeof TAKEOVER_MINE - 1) < 0)
		log_debug("hub", "nobody is there to be told");
	cleanup_fd(&h->fd);
	if (h->term || rc < 0)
		h->config.ended(h->config.arg, rc < 0);
}

static void
hub_handover_give(struct hub_handover *h)
{
	log_info("hub", "a new hub serves: finishing what is in progress");
	h->state = GIVEN;
	timer_cancel(h->timer);
	watch_stop(&h->watch);
	upgrade_tell_manager(&h->upgrade, h->asker);
	h->config.given(h->config.arg);
	if (write(h->fd, TAKEOVER_YOURS, sizeof TAKEOVER_YOURS - 1) < 0)
		log_warn("hub", "the new hub has gone: %s", strerror(errno));
	cleanup_fd(&h->fd);
}

static void
hub_handover_on_word(void *arg, int fd, unsigned events)
{
	struct hub_handover *h = arg;
	char text[16] = "";
	ssize_t n = read(fd, text, sizeof text - 1);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0 && strcmp(text, TAKEOVER_SERVING) == 0)
		hub_handover_give(h);
	else
		hub_handover_take_back(
			h, n > 0 ? "it said something else" : "it has ended, its log says why");
}

static void
hub_handover_on_late(void *arg)
{
	hub_handover_take_back(arg, "it did not serve in time");
}

static int
hub_handover_send(const struct hub_handover *h)
{
	int fds[FDPASS_MOST], n = inherited_list(fds + 1, FDPASS_MOST - 1);
	char text[64];

	if (n < 0)
		return n;
	fds[0] = h->config.lock;
	snprintf(text, sizeof text, TAKEOVER_HUB_HEAD, (size_t)n);
	return fdpass_send(h->fd, text, strlen(text), fds, (size_t)n + 1);
}

/* Why not, to whoever asks: the new hub shows it as it is. */
static void
hub_handover_refuse(int fd, const char *why)
{
	struct admin_reply reply = {.status = 409};

	log_warn("hub", "does not hand over to a new hub: %s", why);
	buf_init(&reply.body, BUF_UNLIMITED);
	buf_printf(&reply.body, "%s\n", why);
	admin_answer(fd, &reply);
	buf_fini(&reply.body);
}

void
hub_handover_asked(struct hub_handover *h, int fd, bool stops)
{
	struct err err = {0};
	int rc;

	if (stops || h->state != IDLE || h->config.replicas) {
		hub_handover_refuse(fd,
			h->config.replicas ? "it has replicas (peers), which serve while it is "
					     "restarted"
					   : "it stops, or hands over already");
		return;
	}
	log_info("hub", "hands over to a new hub");
	h->asker = upgrade_who_asks(fd);
	h->state = HELD;
	h->fd = fd;
	rc = hub_handover_send(h); /* with what ingress.redirect listens on */
	(void)hub_hold(h->config.hub, true, &err);
	if (rc < 0) {
		hub_handover_take_back(h, strerror(-rc));
		return;
	}
	h->watch = watch_start(h->config.loop, fd, WATCH_READ, hub_handover_on_word, h);
	timer_start(h->timer, HANDOVER_MS, 0);
}

void
hub_handover_upgrade(struct hub_handover *h, int fd, bool stops)
{
	if (h->config.replicas)
		hub_handover_refuse(fd,
			"it has replicas (peers), which serve while it is "
			"restarted: restart it");
	else
		upgrade_asked(&h->upgrade, fd, stops || h->state != IDLE);
}

bool
hub_handover_is_under_way(const struct hub_handover *h)
{
	return h != NULL && h->state != IDLE;
}

bool
hub_handover_terminates(struct hub_handover *h)
{
	if (h == NULL || h->state == IDLE)
		return false;
	h->term = true;
	if (h->state == OVER)
		h->config.ended(h->config.arg, 0);
	return true;
}

bool
hub_handover_waits(struct hub_handover *h)
{
	if (h == NULL || h->state != GIVEN || h->term || upgrade_is_child(&h->upgrade, h->asker))
		return false;
	h->state = OVER;
	log_info("hub", "everything is handed over; waiting to be stopped");
	return true;
}

void
hub_handover_new(struct hub_handover **out, const struct hub_handover_config *config)
{
	struct hub_handover *h = xcalloc(1, sizeof *h);

	h->config = *config;
	h->fd = -1;
	h->timer = timer_new(config->loop, hub_handover_on_late, h);
	upgrade_init(&h->upgrade, config->loop, config->starter, "hub", config->program);
	*out = h;
}

void
hub_handover_free(struct hub_handover **out)
{
	struct hub_handover *h = take_ptr(out);

	if (h == NULL)
		return;
	watch_stop(&h->watch);
	timer_free(&h->timer);
	cleanup_fd(&h->fd);
	upgrade_fini(&h->upgrade);
	free(h);
}
