#include "src/handover.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "base/log.h"
#include "base/notify.h"
#include "src/agent_private.h"
#include "src/takeover.h"

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
	pid_t child; /* that we had started last; 0: none */
	pid_t asker; /* whom we hand over to */
	int waiting; /* who wants to hear whether one was started; -1: nobody */
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
		a->handover->fd = a->handover->waiting = -1;
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

/* Somebody else's is not ours to be the main process. */
static bool
is_child(const struct handover *h)
{
	return h->child != 0 && h->child == h->asker;
}

static void
tell_manager(const struct handover *h)
{
	char line[64];

	if (!is_child(h))
		return;
	snprintf(line, sizeof line, "MAINPID=%d", (int)h->child);
	if (notify_send(line) < 0)
		log_warn("agent", "the service manager was not told of the new agent pid=%d",
			(int)h->child);
}

static void
give(struct handover *h)
{
	struct agent *a = h->agent;

	log_info("agent", "a new agent serves: finishing what is in progress drain_ms=%llu",
		(unsigned long long)a->options->drain_timeout);
	h->state = GIVEN;
	h->given_ms = loop_now_ms(a->loop);
	watch_stop(&h->watch);
	tell_manager(h);
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

static pid_t
who_asks(int fd)
{
	struct ucred who = {0};
	socklen_t size = sizeof who;

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 ? who.pid : 0;
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
	h->asker = who_asks(fd);
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

static char *
why_not(const struct agent *a, int rc)
{
	switch (rc) {
	case -EBUSY:
		return xstrdup("this agent stops, or another one is being started");
	case -ECHILD:
		return xstrdup("its process edgeway-starter has ended; start a new agent with "
			       "--takeover, or restart this one");
	case -ETIMEDOUT:
		return xasprintf("its process edgeway-starter (pid %d) does not answer, and will "
				 "start nothing; is it stopped (kill -CONT %d)? Or start a new "
				 "agent with --takeover",
			(int)starter_pid(a->starter), (int)starter_pid(a->starter));
	default:
		return xstrdup(strerror(-rc));
	}
}

static void
refuse(const struct agent *a, int fd, int rc)
{
	struct admin_reply reply = {.status = rc == -EBUSY ? 409 : 500};
	auto_free char *why = why_not(a, rc);

	buf_init(&reply.body, BUF_UNLIMITED);
	buf_printf(&reply.body, "cannot start %s: %s\n", a->argv[0], why);
	log_warn("agent", "cannot start a new agent: %s", why);
	admin_answer(fd, &reply);
	buf_fini(&reply.body);
}

static void
on_started(void *arg, int rc, pid_t pid)
{
	struct handover *h = arg;
	struct agent *a = h->agent;
	struct admin_reply reply = {.status = 200};
	int fd = take_fd(&h->waiting);

	if (pid != 0)
		h->child = pid;
	if (rc < 0) {
		refuse(a, fd, rc);
		return;
	}
	log_info("agent", "started a new agent to hand over to program=%s pid=%d", a->argv[0],
		(int)pid);
	buf_init(&reply.body, BUF_UNLIMITED);
	buf_printf(&reply.body,
		"started %s as process %d; edgewayctl status tells when it serves\n", a->argv[0],
		(int)pid);
	admin_answer(fd, &reply);
	buf_fini(&reply.body);
}

void
handover_upgrade(void *arg, int fd, const char *query)
{
	struct agent *a = arg;
	struct handover *h = get(a);
	int rc = -EBUSY;

	(void)query;
	if (h->state == IDLE && !a->stopping)
		rc = starter_run(a->starter, a->loop, on_started, h);
	if (rc < 0)
		refuse(a, fd, rc);
	else
		h->waiting = fd;
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

	if (h == NULL || h->state == IDLE || h->term || is_child(h))
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
	cleanup_fd(&h->waiting);
	free(h);
}
