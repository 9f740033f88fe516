#include "src/handover.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "base/log.h"
#include "src/agent_private.h"
#include "src/takeover.h"
#include "src/upgrade.h"

enum {
	TUNNEL_MS = 3000, /* the new one's tunnel is open by then, and ours is the older one */
	ANSWERS_MS = 5000, /* DNS answers that are waited for have come, or will not */
};

enum state { IDLE, FROZEN, GIVEN, ENDING };

struct handover {
	struct agent *agent;
	enum state state;
	int fd;
	struct watch *watch;
	struct timer *timer;
	uint64_t given_ms;
	struct upgrade upgrade;
	pid_t asker; /* whom we hand over to */
	bool term; /* to be stopped, as soon as that is possible */
	bool over; /* all has ended but this */
};

static void on_timer(void *arg);

static struct handover *
get(struct agent *a)
{
	if (a->handover == NULL) {
		a->handover = xcalloc(1, sizeof *a->handover);
		a->handover->agent = a;
		a->handover->fd = -1;
		upgrade_init(&a->handover->upgrade, a->loop, a->starter, "agent", a->argv[0]);
		a->handover->timer = timer_new(a->loop, on_timer, a->handover);
	}
	return a->handover;
}

/* --- taken back ------------------------------------------------------------ */

static void
take_back(struct handover *h, const char *why)
{
	struct agent *a = h->agent;
	struct err err = {0};

	log_error("agent", "a new agent did not take over, this one goes on: %s", why);
	h->state = IDLE;
	timer_cancel(h->timer);
	watch_stop(&h->watch);
	a->stopping = false;
	if (agent_resume(a, &err) < 0) {
		log_error("agent", "cannot go on: %s", err.text);
		a->status = 1;
		a->handed_over = true; /* to the one that is started next: without these parts
					  nothing on the host can be undone */
		h->term = true;
	}
	/* Only now: the new one lets go of the database at this word. */
	if (write(h->fd, TAKEOVER_MINE, sizeof TAKEOVER_MINE - 1) < 0)
		log_debug("agent", "nobody is there to be told");
	cleanup_fd(&h->fd);
	if (h->term)
		agent_stop(a);
}

/* --- given ------------------------------------------------------------------ */

static void
give(struct handover *h)
{
	struct agent *a = h->agent;

	log_info("agent", "a new agent serves: finishing what is in progress drain_ms=%llu",
		(unsigned long long)a->options->drain_timeout);
	h->state = GIVEN;
	h->given_ms = loop_now_ms(a->loop);
	watch_stop(&h->watch);
	upgrade_tell_manager(&h->upgrade, h->asker);
	dns_hand_over(a->dns);
	admin_stop(&a->metrics);
	admin_stop(&a->admin); /* the new one waits for its address */
	if (write(h->fd, TAKEOVER_YOURS, sizeof TAKEOVER_YOURS - 1) < 0)
		log_warn("agent", "the new agent has gone: %s", strerror(errno));
	cleanup_fd(&h->fd);
	timer_start(h->timer, TUNNEL_MS, 0);
	agent_hand_over(a);
}

static void
on_word(void *arg, int fd, unsigned events)
{
	struct handover *h = arg;
	char text[16] = "";
	ssize_t n = read(fd, text, sizeof text - 1);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0 && strcmp(text, TAKEOVER_SERVING) == 0)
		give(h);
	else
		take_back(h, n > 0 ? "it said something else" : "it has ended, its log says why");
}

static void
on_timer(void *arg)
{
	struct handover *h = arg;

	if (h->state == FROZEN)
		take_back(h, "it did not serve in time");
	else if (h->state == GIVEN)
		agent_tunnel_drain(h->agent);
	else if (h->state == ENDING)
		agent_end(h->agent);
}

/* --- asked -------------------------------------------------------------------- */

static int
send_sockets(struct handover *h)
{
	struct agent *a = h->agent;
	size_t workers = workers_count(a->workers), n = 0;
	int *fds = xcalloc(2 + 3 * workers, sizeof *fds), rc;
	auto_buf struct buf text;

	fds[n++] = a->network_lock;
	if (a->lock >= 0)
		fds[n++] = a->lock;
	if (!lb_listening(a->lb) || !dns_listening(a->dns))
		workers = 0;
	if (workers > 0) {
		n += lb_sockets(a->lb, fds + n);
		n += dns_sockets(a->dns, fds + n);
	}
	buf_init(&text, BUF_UNLIMITED);
	buf_printf(&text, TAKEOVER_HEAD "%s", a->lock >= 0, workers, buf_str(&a->estate));
	rc = n <= FDPASS_MOST ? fdpass_send(h->fd, buf_at(&text), buf_len(&text), fds, n) : -E2BIG;
	free(fds);
	return rc;
}

void
handover_asked(void *arg, int fd, const char *query)
{
	struct agent *a = arg;
	struct handover *h = get(a);
	int rc;

	(void)query;
	if (h->state != IDLE || a->stopping) {
		log_warn("agent", "another agent wants to take over, but this one stops already");
		close(fd);
		return;
	}
	log_info("agent", "hands over to a new agent");
	h->asker = upgrade_who_asks(fd);
	h->state = FROZEN;
	h->fd = fd;
	a->stopping = true;
	agent_freeze(a);
	rc = send_sockets(h);
	if (rc < 0) {
		take_back(h, strerror(-rc));
		return;
	}
	h->watch = watch_start(a->loop, fd, WATCH_READ, on_word, h);
	timer_start(h->timer, HANDOVER_MS, 0);
}

/* --- started by ourselves -------------------------------------------------------- */

void
handover_upgrade(void *arg, int fd, const char *query)
{
	struct agent *a = arg;
	struct handover *h = get(a);

	(void)query;
	upgrade_asked(&h->upgrade, fd, h->state != IDLE || a->stopping);
}

/* --- the end ---------------------------------------------------------------------- */

bool
handover_terminates(struct agent *a)
{
	struct handover *h = a->handover;

	if (h == NULL || h->state == IDLE)
		return false;
	h->term = true;
	if (h->over)
		loop_stop(a->loop);
	return true;
}

bool
handover_lingers(struct agent *a)
{
	struct handover *h = a->handover;
	uint64_t now = loop_now_ms(a->loop);

	if (h == NULL || h->state == IDLE)
		return false;
	if (h->state == GIVEN && now - h->given_ms < ANSWERS_MS) {
		h->state = ENDING;
		timer_start(h->timer, ANSWERS_MS - (now - h->given_ms), 0);
		return true;
	}
	return false;
}

bool
handover_waits(struct agent *a)
{
	struct handover *h = a->handover;

	if (h == NULL || h->state == IDLE || h->term || upgrade_is_child(&h->upgrade, h->asker))
		return false;
	h->over = true;
	log_info("agent", "everything is handed over; waiting to be stopped");
	return true;
}

void
handover_free(struct agent *a)
{
	struct handover *h = take_ptr(&a->handover);

	if (h == NULL)
		return;
	watch_stop(&h->watch);
	timer_free(&h->timer);
	cleanup_fd(&h->fd);
	upgrade_fini(&h->upgrade);
	free(h);
}
