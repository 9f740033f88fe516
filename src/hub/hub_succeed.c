/* Take-over from the predecessor hub, and hand-over to the successor. */
#include "src/hub/hub_main_private.h"

#include <errno.h>
#include <stdio.h>

#include "base/core/inherited.h"
#include "base/core/log.h"
#include "base/http/admin.h"
#include "src/common/lock.h"

enum { READY_MS = 20 };

/* --- hand-over to the successor ------------------------------------------------------------- */

static const char *
succeed_refusal(void *arg)
{
	struct hub_main *m = arg;
	size_t n = hub_behind(m->hub);

	if (m->options->peers[0] != NULL)
		return "it has replicas (peers), which serve while it is restarted: restart it";
	if (n == 0)
		return NULL;
	/* else the main loop would wait for all of them */
	snprintf(m->behind, sizeof m->behind,
		"the disk is behind: %zu records of nodes are not written yet; try again", n);
	return m->behind;
}

static void
succeed_freeze(void *arg)
{
	const struct hub_main *m = arg;

	hub_hold(m->hub, true);
}

static int
succeed_resume(void *arg, struct err *err)
{
	const struct hub_main *m = arg;

	(void)err;
	hub_hold(m->hub, false);
	return 0;
}

static int
succeed_sockets(void *arg, struct buf *head, int *fds)
{
	const struct hub_main *m = arg;
	int n = inherited_list(fds + 1, FDPASS_MOST - 1);

	if (n < 0)
		return n;
	fds[0] = m->lock;
	buf_printf(head, TAKEOVER_HUB_HEAD, (size_t)n);
	return n + 1;
}

static void
succeed_give(void *arg)
{
	struct hub_main *m = arg;

	cleanup_fd(&m->lock); /* the new one has it too, and if it dies, the next one can take it */
	admin_stop(&m->admin); /* the new one waits for its address */
	admin_stop(&m->metrics);
	hub_leave(m->hub);
	hub_main_drain(m);
}

static void
succeed_stop(void *arg, int status)
{
	struct hub_main *m = arg;

	m->status = status;
	hub_main_stop(m);
}

void
hub_main_takeover(void *arg, int fd, const char *query)
{
	struct hub_main *m = arg;

	(void)query;
	handover_asked(m->handover, fd);
}

void
hub_main_upgrade(void *arg, int fd, const char *query)
{
	struct hub_main *m = arg;

	(void)query;
	handover_upgrade(m->handover, fd);
}

/* --- take-over from the predecessor --------------------------------------------------------- */

/* Callers are accepted only now: before that only the predecessor knew where their nodes were
 * connected. */
static void
succeed_on_tick(void *arg)
{
	struct hub_main *m = arg;

	if (!hub_ready(m->hub) || takeover_offered(m->takeover))
		return;
	hub_open(m->hub, false);
	takeover_serving(m->takeover);
}

static void
succeed_on_gone(void *arg, bool ours)
{
	struct hub_main *m = arg;
	struct err err = {0};

	timer_free(&m->ready);
	takeover_free(&m->takeover);
	if (ours) {
		log_info("hub", "has taken over");
		hub_open(m->hub, true);
		service_state_again(m->announce);
		if (hub_main_start_admin(m, &err) == 0)
			return;
		log_error("hub", "%s", err.text);
	} else {
		log_error("hub", "came too late, the hub before goes on: it waits %d s",
			HANDOVER_MS / 1000);
		hub_hold(m->hub, true); /* its rules stay */
	}
	m->status = 1;
	hub_main_stop(m);
}

int
hub_main_take_lock(struct hub_main *m, struct err *err)
{
	const struct hub_options *o = m->options;
	int none, rc = 0;

	if (o->takeover)
		rc = takeover_ask(o->admin_socket, "hub", &m->takeover, err);
	if (rc < 0 || m->takeover == NULL)
		return rc < 0 ? rc : lock_take(o->data_dir, &m->lock, err);
	takeover_locks(m->takeover, &m->lock, &none);
	if ((rc = lock_inherit("hub", o->data_dir, &m->lock, err)) < 0)
		return rc;
	takeover_sockets(m->takeover);
	return 0;
}

void
hub_main_follow(struct hub_main *m)
{
	handover_new(&m->handover,
		&(struct handover_config){
			.loop = m->loop,
			.who = "hub",
			.starter = m->starter,
			.program = m->argv[0],
			.refusal = succeed_refusal,
			.freeze = succeed_freeze,
			.sockets = succeed_sockets,
			.resume = succeed_resume,
			.give = succeed_give,
			.stop = succeed_stop,
			.end = hub_main_end,
			.arg = m,
		});
	if (m->takeover == NULL)
		return;
	takeover_follow(m->takeover, m->loop, succeed_on_gone, m);
	m->ready = timer_new(m->loop, succeed_on_tick, m);
	timer_start(m->ready, 0, READY_MS);
}
